"""Whatever the job's processes do, none of a finished run is left, and the run is judged by what was true."""

import subprocess
import sys

import psutil
import pytest

from orchestrator.core.facts import Exited
from orchestrator.runtime import output, world
from orchestrator.runtime.identity import alive, identity
from orchestrator.wire import read_json
from tests.runtime.scripted import POLICY, Run

HANG = POLICY + "failures: {hang: {after: 1s, respond: [relaunch]}}\n"


@pytest.fixture
def impatient(monkeypatch):
    """A job that does not answer is not waited for as long as in earnest."""
    monkeypatch.setattr(world, "SILENT", 0.3)
    monkeypatch.setattr(world, "SIGNAL_GRACE", 0.5)


def exits(run: Run) -> list[tuple[int | None, int | None]]:
    return [(f.code, f.signal) for f in run.facts() if isinstance(f, Exited)]


def test_a_child_that_left_its_session_and_ignores_sigterm_is_ended_with_the_job(run):
    state = run.lay_out({"at": 50, "do": "orphan"}).supervise()
    assert state.status == "completed"
    assert read_json(run.dir.attempt(1).exit)["leftover"] == 1
    assert run.processes() == []


def test_it_is_ended_before_the_next_attempt_begins(run, impatient):
    state = run.lay_out({"at": 50, "do": "orphan"}, {"at": 120, "do": "level"}).supervise()
    assert (state.status, state.attempt) == ("completed", 2)
    assert read_json(run.dir.attempt(1).exit)["leftover"] == 1


@pytest.mark.parametrize("what", ["deaf", "spin", "freeze"])
def test_a_job_that_hangs_is_ended_whatever_it_ignores(run, impatient, what):
    state = run.lay_out({"at": 60, "do": what, "attempts": 1}, policy=HANG).supervise()
    assert (state.status, state.attempt) == ("completed", 2)
    assert [(i.cls, i.onset) for i in state.incidents] == [("hang", 59)]
    assert exits(run)[0] == ((None, 9) if what == "deaf" else (None, 15))


def test_a_killed_job_is_told_by_its_signal(run):
    state = run.lay_out({"at": 60, "do": "kill", "attempts": 1}).supervise()
    assert state.incidents[0].reason == "killed by SIGKILL"
    assert exits(run) == [(None, 9), (0, None)]


def keeper_of(run: Run) -> psutil.Process:
    return psutil.Process(read_json(run.dir.attempt(1).process)["keeper"]["pid"])


def test_a_job_outlives_its_keeper_and_completes(run):
    def listen(state, fact):
        if state.step == 60 and not killed:
            killed.append(True)
            keeper_of(run).kill()

    killed: list[bool] = []
    state = run.lay_out().supervise(listen)
    assert (state.status, state.attempt) == ("completed", 1)
    assert run.steps(1) == list(range(1, 301))


def test_what_a_job_without_keeper_leaves_behind_is_ended_too(run):
    def listen(state, fact):
        if state.step == 60 and not killed:
            killed.append(True)
            keeper_of(run).kill()

    killed: list[bool] = []
    run.lay_out({"at": 50, "do": "orphan"}, {"at": 80, "do": "crash", "attempts": 1})
    state = run.supervise(listen)
    assert (state.status, state.attempt) == ("completed", 2)
    assert state.incidents[0].reason.startswith("ValueError: no good at step 79")


def test_a_keeper_killed_while_its_job_is_deaf_does_not_keep_the_job_alive(run, impatient):
    def listen(state, fact):
        if state.step == 59 and not killed:
            killed.append(True)
            keeper_of(run).kill()

    killed: list[bool] = []
    state = run.lay_out({"at": 60, "do": "deaf", "attempts": 1}, policy=HANG).supervise(listen)
    assert (state.status, state.attempt) == ("completed", 2)


def test_a_flood_of_output_goes_to_the_file_and_no_further(run):
    """Its beginning and its end are kept, whatever came between."""
    state = run.lay_out({"at": 50, "do": "flood"}, {"at": 290, "do": "flood"}).supervise()
    assert (state.status, state.step) == ("completed", 300)
    assert run.steps(1) == list(range(1, 301))
    text = run.dir.attempt(1).output.read_bytes()
    assert len(text) <= output.LIMIT
    assert text.startswith(b"the flood of step 50\n")
    assert b" bytes are left out here ...]\n" in text
    assert text.endswith(b"the flood of step 290 is over\n")


def test_a_line_of_fifty_megabytes_costs_that_line_only(run):
    before = psutil.Process().memory_info().rss
    state = run.lay_out({"at": 50, "do": "long_line"}).supervise()
    assert (state.status, state.step) == ("completed", 300)
    assert run.steps(1) == list(range(1, 301))
    assert psutil.Process().memory_info().rss - before < 40 << 20


def test_a_process_is_known_by_more_than_its_number():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = identity(child.pid)
    assert alive(known)
    assert not alive({**known, "started": known["started"] - 60.0})
    assert not alive({**known, "boot": "another"})
    assert not alive({**known, "host": "elsewhere"})
    child.communicate(b"\n")
    assert not alive(known)
    assert not alive(None)
