"""The supervisor dies at any point, and the same command again makes no difference to the run."""

import signal

import pytest

from orchestrator.core.facts import Launched, Supervised
from orchestrator.wire import read_json
from tests.runtime.scripted import Run, news

FAULTY = ({"at": 70, "do": "crash", "attempts": 1}, {"at": 120, "do": "level"})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The decisions of the faulty run when nobody dies."""
    run = Run(tmp_path_factory.mktemp("undisturbed")).lay_out(*FAULTY)
    state = run.supervise()
    assert (state.status, state.attempt) == ("completed", 3)
    return shape(run)


def shape(run):
    return [(d[0], *(a[:2] for a in d[2:])) for d in run.decisions()]


def test_a_killed_supervisor_is_followed_by_one_that_adopts_the_same_process(run):
    child = run.lay_out(total=600, rate=200).start()
    run.wait_for(lambda: len(run.steps(1)) >= 60)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    process = read_json(run.dir.attempt(1).process)
    state = run.supervise()
    assert (state.status, state.attempt, state.step) == ("completed", 1, 600)
    assert run.steps(1) == list(range(1, 601))
    assert [f.pid for f in run.facts() if isinstance(f, Launched)] == [process["pid"]]
    assert [f.epoch for f in run.facts() if isinstance(f, Supervised)] == [1, 2]


def test_a_job_that_ends_while_nobody_watches_has_completed_all_the_same(run):
    child = run.lay_out(rate=300).start()
    run.wait_for(lambda: len(run.steps(1)) >= 20)
    child.kill()
    child.communicate()
    run.wait_for(run.dir.attempt(1).exit.exists)
    state = run.supervise()
    assert (state.status, state.attempt, state.step) == ("completed", 1, 300)
    assert run.steps(1) == list(range(1, 301))


def test_dying_after_everything_new_in_turn_changes_nothing(run, undisturbed):
    """No supervisor lives longer than to the next decision, outcome, launch, end or checkpoint in its journal."""
    run.lay_out(*FAULTY)
    codes = [-signal.SIGKILL]
    while codes[-1] == -signal.SIGKILL:
        child = run.start("--die-at-news")
        child.communicate(timeout=60)
        codes.append(child.returncode)
    assert codes[-1] == 0
    assert shape(run) == undisturbed
    assert len(codes) - 2 == len({news(fact) for fact in run.facts()} - {None})
    assert read_json(run.dir.exit)["step"] == 300


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["Decision", "Outcome", "Launched", "Exited", "Checkpoint"])
def test_dying_around_one_record_changes_nothing(run, undisturbed, kind, when):
    """Around the second record of a kind: in the middle of the run, its first incident being answered."""
    run.lay_out(*FAULTY)
    child = run.start("--die", when, kind, "2")
    child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL
    state = run.supervise()
    assert (state.status, state.attempt, state.step) == ("completed", 3, 300)
    assert shape(run) == undisturbed
    for attempt, start in ((1, 0), (3, 100)):
        steps = run.steps(attempt)
        assert steps == list(range(start + 1, start + 1 + len(steps)))
