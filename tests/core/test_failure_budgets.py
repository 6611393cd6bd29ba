"""How often a failure is answered, how long one waits before, and what fills the budgets again."""

import pytest

from orchestrator import registry
from orchestrator.core.decide import decide
from orchestrator.core.facts import Announced, Checkpoint, Exited, Launched, Order, Outcome, Step, Tick
from orchestrator.core.lifecycle import BACKOFF_MAX, deadline
from orchestrator.core.state import first
from tests.simulation import Job, policy


class Life:
    """A run told by hand: what was decided is done at once."""

    def __init__(self, **overrides):
        self.rules = registry.bind(policy(**overrides))
        self.state, self.time, self.launches = first(self.rules), 0.0, []
        self.tell(Tick(0.0))

    def tell(self, fact):
        self.state, decisions = decide(self.rules, self.state, fact)
        for action in (a for d in decisions if d.mode == "act" for a in d.actions):
            if action.verb == "relaunch":
                self.launches.append(self.time)
                start = action.to_step or 0
                self.tell(Launched(action.attempt + 1, start, action.path, "here", 100 + action.attempt, self.time))
                self.tell(Announced(self.state.attempt, start, 100_000, hook=True, time=self.time))
            self.tell(Outcome(action.id, "done", "", self.time))

    def train(self, to, save=False):
        for step in range(self.state.step + 1, to + 1):
            self.time += 1.0
            self.tell(Step(self.state.attempt, step, self.time, loss=2.0 + 0.001 * (step % 7)))
        if save:
            self.tell(Checkpoint(self.state.attempt, to, f"step-{to}", "saved", time=self.time))

    def end(self, cause="crash", why="it failed"):
        self.time += 1.0
        self.tell(Exited(self.state.attempt, 1, None, cause, why, self.time))

    def wait(self):
        """Until the run goes on, or is over."""
        while self.state.status == "relaunching" and (due := deadline(self.rules, self.state)) is not None:
            self.time = due
            self.tell(Tick(due))


def test_the_first_relaunch_comes_at_once_and_each_further_one_later():
    life, waits = Life(limits__relaunches="{max: 10, refill: on progress}", failures__crash__max="9"), []
    for failure in range(1, 7):
        life.train(10 + failure)
        life.end()
        ended = life.time
        life.wait()
        waits.append(life.launches[-1] - ended)
    assert waits[0] == 0.0
    assert all(2.5 * 2**n <= wait <= 5.0 * 2**n for n, wait in enumerate(waits[1:]))


def test_no_wait_is_longer_than_its_bound_and_jobs_come_back_apart():
    waits = set()
    for host in ("a", "b", "c"):
        life = Life()
        counts = life.state.counts._replace(failures=(("crash", 30),))
        attempts = tuple(a._replace(host=host) for a in life.state.attempts)
        life.state = life.state._replace(counts=counts, attempts=attempts)
        life.train(5)
        life.tell(Exited(1, 1, None, "oom", "no memory", life.time))
        life.state = life.state._replace(counts=counts)
        life.end()
        waits.add(life.state.not_before - life.time)
    assert all(wait <= BACKOFF_MAX for wait in waits)


def test_the_budget_of_a_cause_ends_in_a_hold():
    life = Life(failures__crash__max="2")
    for failure in range(3):
        life.train(10 + failure)
        life.end(why=f"reason {'abc'[failure]}")
        life.wait()
    assert life.state.status == "held"
    assert "crash 3 times without progress between, the policy allows 2" in life.state.why


def test_a_new_checkpoint_fills_the_budgets_and_the_same_steps_again_do_not():
    life = Life(failures__crash__max="2")
    for failure in range(5):
        life.train(100 * (failure + 1), save=True)
        life.end(why=f"reason {'abcde'[failure]}")
        life.wait()
    assert life.state.status == "running"
    for failure in range(3):
        life.train(519 + failure)
        life.end(why=f"cause {'xyz'[failure]}")
        life.wait()
    assert life.state.status == "held"


def test_a_taken_port_costs_no_failure_but_time():
    life = Life()
    for _ in range(3):
        life.end("environment", "OSError: [Errno 98] Address already in use")
        ended = life.time
        life.wait()
        assert life.launches[-1] > ended
    assert (life.state.status, life.state.counts.failures, life.state.incidents) == ("running", (), ())


def test_even_what_costs_no_failure_ends_at_the_ceiling():
    life = Life(limits__relaunches="{max: 4, refill: on progress}")
    for _ in range(6):
        life.end("environment", "OSError: [Errno 98] Address already in use")
        life.wait()
    assert life.state.status == "held"
    assert "4 relaunches without progress are spent" in life.state.why
    assert len(life.launches) == 5


@pytest.mark.parametrize(("verb", "status"), [("stop", "stopped"), ("preempt", "preempted")])
def test_a_word_during_the_wait_needs_no_relaunch_to_be_obeyed(verb, status):
    life = Life()
    for failure in range(2):
        life.train(5)
        life.end(why=f"reason {'ab'[failure]}")
    assert life.state.status == "relaunching"
    life.tell(Order(verb, "somebody", life.time))
    assert life.state.status == status


def test_what_was_saved_in_an_excursion_that_the_crash_cut_short_is_not_resumed_from():
    """The loss rises just before a save and the trainer dies just after it: nobody knows yet what it was."""

    def trouble(attempt, step):
        if attempt == 1 and step == 403:
            return "crash"
        return {"loss": 6.0} if attempt == 1 and step > 398 else None

    job = Job(registry.bind(policy("tiny_gpt", phases="{}")), trouble)
    state = job.run()
    starts = [fact.start_step for fact in job.facts if isinstance(fact, Launched)]
    assert starts == [0, 350]
    assert state.status == "completed"
