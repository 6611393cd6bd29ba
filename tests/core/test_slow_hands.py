"""What is decided is done late, and the run goes on in the meantime: a supervisor died again and again."""

from orchestrator import registry
from orchestrator.core.facts import Exited, Launched, Outcome, Tick
from orchestrator.core.state import FINAL
from tests.core.test_laws import SHORT
from tests.simulation import Job, policy


class Late(Job):
    """A job that trains on for a while after each decision before anything is done about it."""

    def run(self, limit: int = 20_000, late: int = 150):
        wait = late
        self.tell(Tick(self.time))
        while self.state.status not in FINAL and len(self.facts) < limit:
            self.time += 1.0
            if self.alive and self.todo and wait:
                wait -= 1
                self._step()
                continue
            wait = late
            while self.todo:
                self._do(self.todo.pop(0))
            if self.alive:
                self._step()
        return self.state


def worse_and_worse(attempt, step):
    """A level for a while, and later numbers that are none, where the first attempt reads bad data."""
    if attempt > 1 or step < 200 or 260 <= step < 320:
        return None
    return {"loss": 6.0} if step < 260 else {"loss": float("nan"), "grad_norm": float("inf")}


def test_what_a_rollback_leaves_behind_is_answered_by_it():
    job = Late(registry.bind(policy(**SHORT)), worse_and_worse)
    state = job.run()
    assert (state.status, state.attempt) == ("completed", 2)
    assert [(i.cls, i.stage) for i in state.incidents] == [("persistent", "closed"), ("nonfinite", "closed")]
    assert [d.incident for d in job.decisions] == [0, 1]


def test_an_end_that_is_told_before_the_outcome_of_its_launch_is_a_failure_like_any_other():
    job = Job(registry.bind(policy(**SHORT)))
    job.tell(Tick(0.0))
    launch = job.todo.pop()
    job.tell(Launched(1, 0, "", "here", 1, 1.0))
    job.tell(Exited(1, 1, None, "crash", "it failed", 2.0))
    assert job.state.status == "relaunching"
    job.tell(Outcome(launch.id, "done", "", 3.0))
    assert [(action.verb, action.incident) for action in job.todo] == [("relaunch", 1)]
