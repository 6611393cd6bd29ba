"""What the metrics say of our own actions, and of a resume that brought back what nobody ordered."""

import pytest

from orchestrator import registry
from orchestrator.core.facts import Action, Announced, Exited, Fact, Launched, Step
from orchestrator.core.policy import Policy
from orchestrator.core.schedule import phase_factor, rate
from orchestrator.core.state import Ordered, State
from tests.simulation import Job, Trouble, healthy, policy

RATE = 1e-3  # of the simulated job, before any cut


def spiked(more: Trouble = lambda attempt, step: None) -> Trouble:
    """A level that does not come back in attempt 1; what `more` says on top of it."""

    def trouble(attempt: int, step: int) -> dict[str, object] | str | None:
        own = more(attempt, step)
        if isinstance(own, str):
            return own
        risen: dict[str, object] = {"loss": 4.0} if attempt == 1 and step > 400 else {}
        return {**risen, **(own or {})}

    return trouble


def run(trouble: Trouble, of: Policy | None = None, total: int = 700) -> State:
    job = Job(registry.bind(of or policy("tiny_gpt", schedule="null", phases="{}")), trouble, total)
    return job.run()


def cut(state: State) -> Ordered:
    return next(o for o in state.actions if o.action.verb == "lr")


def classes(state: State) -> list[str]:
    return [incident.cls for incident in state.incidents]


def test_a_cut_that_acts_is_confirmed() -> None:
    state = run(spiked())
    assert (cut(state).status, state.status) == ("confirmed", "completed")
    assert "lr_mismatch" not in classes(state)


def test_a_cut_that_the_checkpoint_undoes_holds_the_run_and_names_both_rates() -> None:
    state = run(spiked(lambda attempt, step: {"lr": RATE} if attempt == 2 else None))
    assert (cut(state).status, state.status) == ("refuted", "held")
    assert "lr 0.001 at step" in cut(state).detail
    assert "ordered 0.0005" in cut(state).detail
    assert "lr_mismatch" in classes(state)


def test_a_rate_that_is_right_on_the_first_records_only_is_refuted() -> None:
    for right in (1, 3, 6):

        def back(attempt: int, step: int, right: int = right) -> dict[str, object] | None:
            return {"lr": RATE} if attempt == 2 and step > 350 + right else None

        state = run(spiked(back))
        assert (cut(state).status, state.status) == ("refuted", "held"), right
        assert "it was right before" in cut(state).detail


def test_a_policy_may_go_on_with_a_refuted_cut() -> None:
    known = policy("tiny_gpt", schedule="null", phases="{}", failures__lr_mismatch="{respond: [record]}")
    state = run(spiked(lambda attempt, step: {"lr": RATE} if attempt == 2 else None), known)
    assert (cut(state).status, state.status) == ("refuted", "completed")
    assert "lr_mismatch" in classes(state)


def test_a_log_without_a_rate_cannot_tell() -> None:
    state = run(spiked(lambda attempt, step: {"lr": None}))
    assert (cut(state).status, state.status) == ("unverifiable", "completed")
    assert "the metrics do not tell" in cut(state).detail


class Asserts(Job):
    """A trainer that does not start with another rate than its checkpoint's."""

    def _step(self) -> None:
        if self.attempt == 1:
            super()._step()
            return
        self.alive = False
        why = "AssertionError: learning rate 0.0005 and checkpoint value 0.001 do not match (exit code 1)"
        self.tell(Exited(self.attempt, 1, None, "crash", why, self.time))


def test_a_trainer_that_refuses_the_new_rate_is_not_started_with_it_again() -> None:
    state = Asserts(registry.bind(policy("tiny_gpt", schedule="null", phases="{}")), spiked(), 700).run()
    assert (state.status, state.attempt) == ("held", 2)
    assert cut(state).status == "refuted"
    assert "option" in cut(state).detail
    assert dict(state.counts.failures).get("crash", 0) == 0


ANEW = "[[rollback, reset_moments, {override: [--dtype=float32]}, relaunch], [hold]]"


class Says(Job):
    """A trainer that tells that it resumes without the optimizer's moments."""

    def tell(self, fact: Fact) -> None:
        super().tell(fact._replace(reset=self.attempt > 1) if isinstance(fact, Announced) else fact)


@pytest.mark.parametrize(("trainer", "status"), [(Job, "unverifiable"), (Says, "confirmed")])
def test_what_leaves_no_mark_in_the_records_is_not_said_to_be_done(trainer: type[Job], status: str) -> None:
    answer = policy("tiny_gpt", schedule="null", phases="{}", spikes__persistent__respond=ANEW)
    state = trainer(registry.bind(answer), spiked(), 700).run()
    found = {o.action.verb: (o.status, o.detail) for o in state.actions}
    assert found["reset_moments"][0] == status
    assert found["override"] == ("unverifiable", "nothing in the records tells of the job's other words")
    assert state.status == "completed"
    assert state.unproved == ()


def test_a_warm_up_begun_again_after_a_crash_is_seen_at_its_first_record() -> None:
    def crashes(attempt: int, step: int) -> dict[str, object] | str | None:
        if attempt == 1:
            return "crash" if step == 420 else None
        return {"lr": 1e-6 * (step - 400)}

    state = run(crashes)
    (incident,) = [i for i in state.incidents if i.cls == "lr_mismatch"]
    assert (incident.onset, incident.severity) == (401, "medium")
    assert "1e-06" in incident.reason
    assert state.status == "completed"


def test_a_resume_on_other_weights_is_seen_where_steps_overlap() -> None:
    def forgets(attempt: int, step: int) -> dict[str, object] | str | None:
        if attempt == 1:
            return "crash" if step == 440 else None
        return {"loss": 2.9} if step < 430 else None

    state = run(forgets)
    (incident,) = [i for i in state.incidents if i.cls == "resume_mismatch"]
    assert incident.detected <= 410
    assert "loss 2.9 after the resume" in incident.reason


def test_a_resume_that_goes_on_as_before_raises_nothing() -> None:
    state = run(lambda attempt, step: "crash" if attempt == 1 and step == 440 else None)
    assert classes(state) == ["crash"]


def summed(attempt: int, step: int) -> dict[str, object] | None:
    """After the relaunch the loss is the sum over four batches where it was their mean."""
    if attempt == 1:
        return {"loss": 4.0} if step > 400 else None
    return {"loss": 4.0 * healthy(step)}


def test_a_loss_in_another_unit_after_an_override_is_told_and_nothing_is_rolled_back() -> None:
    rung = "[rollback, {override: [--accumulate=4]}, relaunch]"
    known = policy("tiny_gpt", schedule="null", phases="{}", spikes__persistent__respond=f"[{rung}, [hold]]")
    state = run(summed, known)
    told = next(i for i in state.incidents if i.cls == "resume_mismatch")
    assert (told.severity, told.detected) == ("info", 352)
    assert "the reporting scale changed with --accumulate=4: the loss is 4 times the old level" in told.reason
    assert (state.status, state.attempt, classes(state)) == ("completed", 2, ["persistent", "resume_mismatch"])


def test_the_same_loss_without_an_override_is_trouble() -> None:
    known = policy(
        "tiny_gpt", schedule="null", phases="{}", spikes__persistent__respond="[[rollback, relaunch], [hold]]"
    )
    state = run(summed, known)
    assert state.status == "held"
    assert all(i.severity != "info" for i in state.incidents)


@pytest.mark.parametrize(("factor", "seen"), [(1.03, False), (1.5, True), (0.1, True)])
def test_a_rate_beside_the_schedule_is_told_once_and_not_answered(factor: float, seen: bool) -> None:
    known = policy("tiny_gpt")
    assert known.schedule is not None
    own = known.schedule

    def beside(attempt: int, step: int) -> dict[str, object]:
        return {"lr": factor * rate(own, step) * phase_factor(known.phases, step)}

    state = run(beside, known)
    told = [i for i in state.incidents if i.cls == "lr_mismatch"]
    assert [(i.severity, i.detected <= 30) for i in told] == ([("low", True)] if seen else [])
    assert state.status == "completed"
    assert [ordered.action.verb for ordered in state.actions] == ["relaunch"]


def test_the_steps_of_a_trainer_that_is_slow_to_stop_are_not_held_against_the_cut_to_come() -> None:
    """The rollback's cut is decided, the trainer goes on for forty steps at the rate before it."""

    class Slow(Job):
        def _do(self, action: Action) -> None:
            if action.verb == "stop":
                for _ in range(40):
                    super()._step()
            super()._do(action)

    known = policy("tiny_gpt", checkpoints__healthy_after="50 steps")
    assert known.schedule is not None
    own = known.schedule

    def planned(attempt: int, step: int) -> dict[str, object]:
        return {"lr": rate(own, step) * phase_factor(known.phases, step) if attempt == 1 else None}

    state = Slow(registry.bind(known), spiked(planned), 600).run()
    assert (state.status, state.attempt) == ("completed", 2)
    assert "lr_mismatch" not in classes(state)


def test_a_quarantine_that_has_expired_is_not_carried_into_the_next_launch() -> None:
    """The bad shard is left out for 100 steps; a crash before that keeps it out, one after lets it in."""

    def trouble(attempt: int, step: int) -> dict[str, object] | str | None:
        if (attempt, step) in ((2, 440), (3, 600)):
            return "crash"
        return {"loss": 4.0} if attempt == 1 and step > 400 else None

    known = policy("tiny_gpt", schedule="null", phases="{}", limits__quarantine__expires="100 steps")
    left_out: dict[int, int] = {}

    class Noting(Job):
        def tell(self, fact: Fact) -> None:
            super().tell(fact)
            if isinstance(fact, Launched):
                left_out[fact.attempt] = len(self.state.levels.quarantine)

    job = Noting(registry.bind(known), trouble, 700)
    assert job.run().status == "completed"
    assert left_out[1] == 0
    assert left_out[2] == left_out[3] > 0
    assert left_out[4] == 0


def test_replicas_that_part_are_one_incident_of_their_rank() -> None:
    state = run(lambda attempt, step: {"replicas_odd": (3,)} if step in (300, 400) else None)
    (incident,) = [i for i in state.incidents if i.cls == "rank_local"]
    assert (incident.rank, incident.onset) == (3, 300)
    assert "weights of rank(s) 3" in incident.reason


class Sparse(Job):
    """A trainer that logs every tenth step."""

    def tell(self, fact: Fact) -> None:
        if not isinstance(fact, Step) or fact.step % 10 == 0:
            super().tell(fact)


@pytest.mark.parametrize(("rate", "ending"), [(RATE, ("refuted", "held")), (RATE / 2, ("confirmed", "completed"))])
def test_a_log_of_every_tenth_step_is_enough_to_tell(rate: float, ending: tuple[str, str]) -> None:
    known = policy("tiny_gpt", schedule="null", phases="{}")
    state = Sparse(
        registry.bind(known), spiked(lambda attempt, step: {"lr": rate} if attempt == 2 else None), 3000
    ).run()
    assert (cut(state).status, state.status) == ending
