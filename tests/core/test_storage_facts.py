"""What storage and operators say of checkpoints, as facts: a broken target, a full disk, pins, rejections."""

from dataclasses import replace

import pytest

from orchestrator import registry
from orchestrator.core.decide import decide
from orchestrator.core.evolve import evolve, fold
from orchestrator.core.facts import (
    Action,
    Checkpoint,
    Decision,
    Exited,
    Fact,
    Launched,
    Order,
    Outcome,
    Room,
    Step,
    Tick,
)
from orchestrator.core.health import health, newest_complete, targets
from orchestrator.core.lifecycle import deadline
from orchestrator.core.rules import Rules
from orchestrator.core.state import State, first
from orchestrator.core.storage import ROOM_WAIT
from tests.simulation import Job, policy

RULES = registry.bind(
    policy(
        checkpoints__healthy_after="50 steps",
        checkpoints__margin="5 steps",
        spikes__persistent__confirm__for="20 steps",
        limits__quarantine__max_share="10%",
    )
)


def level(attempt: int, step: int) -> dict[str, object] | None:
    return {"loss": 6.0} if attempt == 1 and step >= 230 else None


def run(broken: set[str] = frozenset(), **options) -> Job:  # type: ignore[assignment]
    job = Job(RULES, options.pop("trouble", level), total=400, broken=lambda path: path in broken, **options)
    job.run()
    return job


def launches(job: Job) -> list[tuple[int, str]]:
    return [(f.start_step, f.checkpoint) for f in job.facts if isinstance(f, Launched)]


class TestABrokenTarget:
    def test_a_flipped_bit_in_the_target_falls_back_to_the_next_and_is_told(self):
        assert launches(run())[1] == (150, "step-150"), "without harm the newest healthy one"
        job = run({"step-150"})
        assert launches(job)[1] == (100, "step-100")
        assert job.state.status == "completed"
        bad = next(c for c in job.state.checkpoints if c.path == "step-150")
        again = next(d for d in job.decisions if "step 150 cannot be loaded" in d.why)
        assert [a.verb for a in again.actions] == ["rollback", "relaunch"]
        assert bad.step == 150

    def test_the_rest_of_the_rung_is_not_done_twice_and_the_rung_stays(self):
        plain, harmed = run(), run({"step-150"})
        for verb in ("lr", "quarantine", "stop"):
            count = [sum(a.verb == verb for d in job.decisions for a in d.actions) for job in (plain, harmed)]
            assert count[0] == count[1], verb
        assert [i.rung for i in plain.state.incidents] == [i.rung for i in harmed.state.incidents]
        assert plain.state.levels.cuts[0].factor == harmed.state.levels.cuts[0].factor

    def test_when_one_after_the_other_is_broken_the_limits_call_a_person(self):
        job = run({"step-150", "step-100", "step-50"})
        assert job.state.status == "held"
        assert "3 rollbacks within 5000 steps" in job.state.why
        assert len(launches(job)) == 1

    def test_a_crash_goes_back_one_more(self):
        def crash(attempt: int, step: int) -> str | None:
            return "crash" if attempt == 1 and step == 230 else None

        assert launches(run({"step-200"}, trouble=crash))[1] == (150, "step-150")

    def test_every_second_way_back_counts_against_the_limits(self):
        rules = registry.bind(
            replace(RULES.policy, limits=policy(limits__rollbacks="{max: 1, per: 5000 steps}").limits)
        )
        job = Job(rules, level, total=400, broken=lambda path: path == "step-150")
        job.run()
        assert job.state.status == "held"
        assert "1 rollbacks within 5000 steps" in job.state.why

    def test_a_relaunch_that_failed_for_another_reason_is_not_tried_again(self):
        job = run()
        relaunch = next(a for d in job.decisions for a in d.actions if a.verb == "relaunch" and a.incident)
        before = job.facts[: next(i for i, f in enumerate(job.facts) if isinstance(f, Launched) and f.attempt == 2)]
        state, decided = decide(RULES, fold(RULES, before), Outcome(relaunch.id, "failed", "no keeper", 1e6))
        assert [a.verb for d in decided for a in d.actions] == ["hold"]
        assert state.why == "no keeper"


def at(state: State, facts: list[Fact], rules: Rules = RULES) -> tuple[State, list[Decision]]:
    decided: list[Decision] = []
    for fact in facts:
        state, decisions = decide(rules, state, fact)
        decided += decisions
    return state, decided


def running(rules: Rules = RULES, saved: tuple[int, ...] = (100, 200), to: int = 250) -> State:
    """Attempt 1 at step `to` with complete checkpoints."""
    state, _ = decide(rules, first(rules), Tick(0.0))
    relaunch = state.actions[-1].action.id
    state, _ = at(state, [Launched(1, 0, "", "here", 1, 0.0), Outcome(relaunch, "done", "", 0.0)], rules)
    for step in range(1, to + 1):
        state = evolve(rules, state, Step(1, step, float(step), loss=2.0, grad_norm=1.0, lr=1e-3))
        if step in saved:
            state = evolve(rules, state, Checkpoint(1, step, f"step-{step}", "saved", time=float(step), seconds=2.0))
    return state


def test_what_a_rollback_under_way_leaves_is_never_healthy_whatever_the_old_attempt_still_tells():
    state = running(to=380)
    back = Action(9, "rollback", 0, 1, 380, to_step=100, path="step-100")
    state = evolve(RULES, state, Decision(9, 0, (back,), "act", 380.0))
    for step in range(381, 600):
        state = evolve(RULES, state, Step(1, step, float(step), loss=2.0, grad_norm=1.0, lr=1e-3))
        if step == 400:
            state = evolve(RULES, state, Checkpoint(1, step, "step-400", "saved"))
    words = {c.step: health(RULES, state, c) for c in state.checkpoints}
    assert words[400] == words[200] == ("suspect", "a rollback to step 100 is leaving it")
    assert words[100].health == "healthy"
    failed = evolve(RULES, state, Outcome(9, "failed", "its digest differs", 600.0))
    assert health(RULES, failed, failed.checkpoints[-1]).health == "healthy"


class TestAFullDisk:
    DEAD = Exited(1, 1, None, "disk_full", "OSError: [Errno 28] No space left on device", 300.0)

    def test_it_is_not_relaunched_into_the_same_wall_and_goes_on_when_there_is_room(self):
        state, decided = at(running(), [Room(10, 1000, 300.0), self.DEAD, Tick(301.0)])
        assert decided == []
        assert state.status == "relaunching"
        assert dict(state.counts.failures) == {"disk_full": 1}
        assert state.counts.relaunches == 0, "waiting costs nothing of the budget"
        state, decided = at(state, [Room(5000, 1000, 900.0)])
        assert [(a.verb, a.to_step) for d in decided for a in d.actions] == [("relaunch", 200)]

    def test_nobody_makes_room_and_the_run_is_held_with_that_message(self):
        state, _ = at(running(), [Room(10, 1000, 300.0), self.DEAD])
        assert deadline(RULES, state) == 300.0 + ROOM_WAIT
        state, _ = at(state, [Tick(300.0 + ROOM_WAIT)])
        assert state.status == "held"
        assert state.why == "the disk is full: 10 bytes are free, one checkpoint takes 1,000"

    def test_with_room_it_is_a_failure_like_others(self):
        _, decided = at(running(), [Room(5000, 1000, 300.0), self.DEAD])
        assert [a.verb for d in decided for a in d.actions] == ["relaunch"]

    def test_a_failed_save_ends_nothing_and_is_one_incident_until_a_save_works(self):
        full = "[Errno 28] No space left on device"
        state, decided = at(running(), [Checkpoint(1, 250, "step-250", "failed", full, 250.0)])
        state, more = at(state, [Checkpoint(1, 260, "step-260", "failed", full, 260.0)])
        assert (decided, more, state.status) == ([], [], "running")
        (incident,) = state.incidents
        assert (incident.cls, incident.live) == ("disk_full", True)
        assert full in incident.reason
        state, _ = at(state, [Checkpoint(1, 270, "step-270", "saved", time=270.0)])
        assert not state.incidents[0].live
        assert [health(RULES, state, c).health for c in state.checkpoints if c.step in (250, 260)] == ["candidate"] * 2

    def test_a_save_that_failed_of_something_else_is_no_verdict_about_the_disk(self):
        state, _ = at(running(), [Checkpoint(1, 250, "step-250", "failed", "lost a rank", 250.0)])
        assert state.incidents == ()


class TestAnOperatorsWord:
    def test_a_rejected_one_is_never_a_target(self):
        state, _ = at(running(), [Order("reject", "ada", 1.0, "wrong data", 200.0)])
        rejected = next(c for c in state.checkpoints if c.step == 200)
        assert health(RULES, state, rejected) == ("bad", "rejected by ada: wrong data")
        assert targets(RULES, state, 250)[0].step == 100
        assert newest_complete(RULES, state).step == 100

    def test_pins_come_and_go(self):
        state, _ = at(running(), [Order("pin", "ada", 1.0, "", 100.0), Order("pin", "ada", 1.0, "", 100.0)])
        assert state.pins == (100,)
        assert at(state, [Order("unpin", "ada", 1.0, "", 100.0)])[0].pins == ()


class TestWhatACheckpointHolds:
    """K15: weights alone are not gone on from where others hold the optimizer too."""

    @pytest.mark.parametrize(("others", "target"), [((), 100), (("optimizer",), 200)])
    def test_weights_alone(self, others: tuple[str, ...], target: int):
        state = running(saved=())
        for step, lacks in ((100, others), (200, ("optimizer", "rng"))):
            state = evolve(RULES, state, Checkpoint(1, step, f"step-{step}", "saved", lacks=lacks))
        assert newest_complete(RULES, state).step == target
        word = health(RULES, state, state.checkpoints[1])
        assert word.health == ("suspect" if target == 100 else "healthy")

    def test_a_run_of_months_does_not_remember_all_that_it_removed(self):
        state = running(saved=())
        for step in range(1, 1200):
            state = evolve(RULES, state, Checkpoint(1, step, f"step-{step}", "missing", "removed by retention"))
        assert [c.step for c in state.checkpoints] == list(range(700, 1200))
