"""What trainers print when things go wrong, from the line to the incident."""

from collections.abc import Iterable

import pytest

from orchestrator import registry
from orchestrator.core.decide import decide
from orchestrator.core.facts import Announced, Exited, Fact, Launched
from orchestrator.core.state import Incident, State, first
from tests.simulation import Job, noise, policy


def read(kind: str, lines: Iterable[str], exited: Exited | None = None) -> State:
    """The state after a trainer's log, read by a shipped policy that acts."""
    rules = registry.bind(policy("pretrain"))
    parser = registry.load("telemetry", kind).parser(1)
    facts: list[Fact] = [Launched(1, 0, "", "here", 1, 0.0), Announced(1, total_steps=10_000)]
    facts += [fact for line in lines for fact in parser.feed(line.encode())]
    facts += [*parser.close(), *([exited] if exited else [])]
    state = first(rules)
    for fact in facts:
        state, _ = decide(rules, state, fact)
    return state


def only(state: State) -> Incident:
    (incident,) = state.incidents
    return incident


def hf(loss: float, norm: str, epoch: int) -> str:
    return f"{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': 3e-05, 'epoch': {epoch / 1000}}}"


def test_a_loss_of_zero_beside_a_norm_that_is_nan_is_nan() -> None:
    healthy = [hf(round(2.4 + noise(n), 4), "1.7", n) for n in range(1, 120)]
    state = read("hf_trainer", [*healthy, *(hf(0.0, "nan", n) for n in range(120, 123))])
    assert (only(state).cls, only(state).severity, only(state).onset) == ("nonfinite", "critical", 120)


def megatron(step: int, loss: float | None, norm: str) -> str:
    shown = "" if loss is None else f" lm loss: {loss:.6E} |"
    head = f" iteration {step:8}/   10000 | consumed samples: {step * 8} | learning rate: 2.000000E-04 |"
    return f"{head} global batch size: 8 |{shown} loss scale: 1.0 | grad norm: {norm} |"


@pytest.mark.parametrize("norm", ["nan", "0.733"])
def test_a_loss_that_vanishes_while_steps_go_on_is_nan(norm: str) -> None:
    healthy = [megatron(n, 2.6 + noise(n), "0.733") for n in range(1, 60)]
    state = read("megatron", [*healthy, *(megatron(n, None, norm) for n in range(60, 66))])
    assert only(state).cls == "nonfinite"
    assert only(state).detected <= 63


def test_an_explosion_that_ends_in_blank_cells_is_not_a_job_without_data() -> None:
    rows = [f"{n},{7.1 + noise(n):.4f},0.21" for n in range(1, 71)]
    rows += ["71,1310,17.2", "72,9.4e7,3.9e6", "73,inf,inf", "74,,", "75,,", "76,,"]
    state = read("csv", ["step,loss,grad_norm", *rows])
    worst = [incident for incident in state.incidents if incident.cls == "nonfinite"]
    assert len(worst) == 1
    assert 71 <= worst[0].onset <= 73


MINIMUM = "Exception: Current loss scale already at minimum - cannot decrease scale anymore (exit code 1)"


def test_a_scaler_that_falls_to_its_minimum_is_a_numerical_fault_and_no_crash() -> None:
    head = "[x] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
    lines = [f"steps: {n} loss: {2.9 + noise(n):.4f} iter time (s): 0.7 samples/sec: 300.0" for n in range(1, 40)]
    lines += [f"{head}Attempted loss scale: {1 << at}, reducing to {max(1 << at >> 1, 1)}" for at in range(15, -1, -1)]
    state = read("deepspeed", lines, Exited(1, 1, None, "numeric", MINIMUM, 100.0))
    assert [(i.cls, i.severity) for i in state.incidents if i.above_low][-1] == ("nonfinite", "critical")
    assert [o.action.verb for o in state.actions if o.action.verb != "record"] == ["rollback", "relaunch"]
    assert dict(state.counts.failures) == {}


class Dies(Job):
    """A trainer whose scaler comes to its minimum at step 120, whatever attempt it is."""

    def _step(self) -> None:
        if self.step < 119:
            super()._step()
            return
        self.alive = False
        self.tell(Exited(self.attempt, 1, None, "numeric", MINIMUM, self.time))


def test_what_dies_by_its_numbers_again_gets_another_rate_and_then_a_person() -> None:
    job = Dies(registry.bind(policy("pretrain", checkpoints__healthy_after="20 steps")), total=600)
    state = job.run()
    (incident,) = [i for i in state.incidents if i.cls == "nonfinite"]
    assert (state.status, incident.events) == ("held", 3)
    rungs = [[a.verb for a in d.actions if a.verb != "quarantine"] for d in job.decisions if d.incident == incident.id]
    assert rungs == [["rollback", "relaunch"], ["rollback", "lr", "relaunch"], ["hold"]]
    back = [o.action.to_step for o in state.actions if o.action.verb == "rollback"]
    assert all(step is not None and step < 119 for step in back)
    assert "minimum" in incident.reason


@pytest.mark.parametrize(("name", "more"), [("base", {}), ("observe", {}), ("pretrain", {"mode": "observe"})])
def test_a_policy_that_does_not_answer_it_lets_the_run_fail(name: str, more: dict[str, str]) -> None:
    state = Dies(registry.bind(policy(name, **more)), total=600).run()
    assert (state.status, state.attempt) == ("failed", 1)
    assert "minimum" in state.why


def test_a_scaler_that_swings_raises_nothing_that_is_acted_on() -> None:
    def swings(attempt: int, step: int) -> dict[str, object] | None:
        if step <= 6 or step % 110 == 0:
            return {"loss_scale": 32768.0, "grad_norm": float("inf"), "skipped": True}
        return None

    state = Job(registry.bind(policy("tiny_gpt", schedule="null", phases="{}")), swings, 600).run()
    assert state.status == "completed"
    assert {o.action.verb for o in state.actions} <= {"relaunch", "skip", "record"}
    assert all(not incident.above_low for incident in state.incidents)


def test_the_second_line_after_a_resume_may_be_a_mean_of_two() -> None:
    def resumes(attempt: int, step: int) -> dict[str, object] | str | None:
        if attempt == 1:
            return "crash" if step == 330 else None
        return {"loss": {301: 2.2, 302: 2.12}[step]} if step in (301, 302) else None

    state = Job(registry.bind(policy("tiny_gpt", schedule="null", phases="{}")), resumes, 600).run()
    assert [incident.cls for incident in state.incidents] == ["crash"]


def test_steps_trained_twice_count_once_and_are_no_event() -> None:
    state = Job(
        registry.bind(policy("tiny_gpt", schedule="null", phases="{}")),
        lambda attempt, step: "crash" if attempt == 1 and step == 318 else None,
        500,
    ).run()
    assert [incident.cls for incident in state.incidents] == ["crash"]
    assert [(a.start_step, a.reached) for a in state.attempts] == [(0, 317), (300, 500)]
    assert state.frontier == 500
