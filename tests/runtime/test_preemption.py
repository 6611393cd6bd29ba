"""The cluster takes the machine away: one more checkpoint, exit 75, and the same command goes on from there."""

import signal
import time

import pytest

from orchestrator.core.facts import Decision, Launched, Order, Step
from orchestrator.wire import read_json
from tests.runtime.scripted import Run


def preempted(run: Run, number: int, at: int = 70, **script: object) -> int:
    """The exit code of a supervisor that got a signal at a step."""
    child = run.lay_out(total=400, rate=200, **script).start()
    run.wait_for(lambda: len(run.steps(1)) >= at)
    child.send_signal(number)
    child.communicate(timeout=30)
    return child.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_notice_is_answered_by_a_checkpoint_and_75(run, number):
    assert preempted(run, number, every=1000) == 75
    over = read_json(run.dir.exit)
    assert (over["state"], over["code"]) == ("preempted", 75)
    assert over["why"] == f"preempted by the cluster: {number.name} to the supervisor"
    saved = (run.dir.path / "checkpoints" / f"checkpoint-{over['step']}").is_dir()
    assert saved, "it did not save at its last step"
    assert run.processes() == []


def test_the_same_command_goes_on_from_that_checkpoint_and_no_budget_is_spent(run):
    assert preempted(run, signal.SIGTERM, every=1000) == 75
    step = read_json(run.dir.exit)["step"]
    state = run.supervise()
    assert (state.status, state.attempt, state.step) == ("completed", 2, 400)
    assert [f.start_step for f in run.facts() if isinstance(f, Launched)] == [0, step]
    assert run.steps(1) + run.steps(2) == list(range(1, 401))
    assert (state.counts.failures, state.counts.relaunches, state.incidents) == ((), 0, ())


def test_twenty_preemptions_are_as_good_as_one(run):
    """Each after some good steps: nothing is counted that would end the run."""
    run.lay_out(total=100_000, rate=200, every=20)
    for _ in range(20):
        sent = []

        def listen(state, fact, sent=sent):
            if isinstance(fact, Step) and not sent:
                sent.append(True)
                signal.raise_signal(signal.SIGUSR1)

        state = run.supervise(listen)
        assert state.status == "preempted"
    assert (state.attempt, state.counts.failures, state.counts.relaunches, state.incidents) == (20, (), 0, ())
    told = [step for attempt in range(1, 21) for step in run.steps(attempt)]
    assert told == list(range(1, state.step + 1))


def test_a_second_notice_is_the_same_notice(run):
    child = run.lay_out(total=4000, rate=200).start()
    run.wait_for(lambda: len(run.steps(1)) >= 30)
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM):
        child.send_signal(number)
        time.sleep(0.02)
    child.communicate(timeout=30)
    assert child.returncode == 75
    assert [f.verb for f in run.facts() if isinstance(f, Order)] == ["preempt"]


def test_a_job_that_completes_in_spite_of_the_notice_has_completed(run):
    def listen(state, fact):
        if isinstance(fact, Step) and fact.step == 300:
            signal.raise_signal(signal.SIGTERM)

    assert run.lay_out().supervise(listen).status == "completed"


def test_the_first_interrupt_leaves_the_job_running_and_the_second_stops_it(run):
    child = run.lay_out(total=4000, rate=200).start()
    run.wait_for(lambda: len(run.steps(1)) >= 30)
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=30)
    assert child.returncode == 3, said
    assert read_json(run.dir.exit)["state"] == "stopped"
    assert run.processes() == []


def test_a_notice_in_the_middle_of_a_rollback_leaves_no_job_behind(run):
    def listen(state, fact):
        if isinstance(fact, Decision) and fact.incident:
            signal.raise_signal(signal.SIGTERM)

    state = run.lay_out({"at": 120, "do": "level"}).supervise(listen)
    assert (state.status, state.attempt) == ("preempted", 2)
    assert run.processes() == []
    assert run.supervise().status == "completed"
