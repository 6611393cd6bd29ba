"""The disk is full or slow, the clock jumps, a port is taken, nobody answers at the other end of a webhook."""

import errno
import os
import time

import pytest

from orchestrator.core.facts import Step
from orchestrator.notify import webhook
from tests.runtime.scripted import POLICY


def at(step, do):
    """A listener that does something once, at a step."""
    done = []

    def listen(state, fact):
        if isinstance(fact, Step) and fact.step >= step and not done:
            done.append(True)
            do()

    return listen


def test_a_taken_port_is_tried_again_after_a_while_and_is_no_failure(run):
    state = run.lay_out({"at": 1, "do": "port_taken", "attempts": 1}).supervise()
    assert (state.status, state.attempt, state.incidents, state.counts.failures) == ("completed", 2, (), ())
    first, second = state.attempts
    assert second.launched - first.exited.time > 2.0


def test_a_full_disk_under_the_journal_leaves_the_job_running_for_the_next_supervisor(run):
    supervisor = run.lay_out(total=600, rate=200).supervisor()
    write = supervisor._journal._write

    def full(tag, body, at):
        if tag == "step" and body["step"] == 60:
            supervisor._journal._file.write(b'{"n":61,"fact":"st')
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(tag, body, at)

    supervisor._journal._write = full
    with pytest.raises(OSError, match="No space left on device"):
        supervisor.run()
    assert run.processes()
    state = run.supervise()
    assert (state.status, state.attempt) == ("completed", 1)
    assert run.steps(1) == list(range(1, 601))


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_is_no_hang(run, monkeypatch, jump):
    real = time.time
    policy = POLICY + "failures: {hang: {after: 5s}}\n"
    run.lay_out(policy=policy)
    state = run.supervise(at(60, lambda: monkeypatch.setattr(time, "time", lambda: real() + jump)))
    assert (state.status, state.incidents) == ("completed", ())


def test_a_clock_that_jumped_between_two_supervisors_is_no_hang(run, monkeypatch):
    child = run.lay_out(total=600, rate=200, policy=POLICY + "failures: {hang: {after: 5s}}\n").start()
    run.wait_for(lambda: len(run.steps(1)) > 40)
    child.kill()
    child.communicate()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600.0)
    state = run.supervise()
    assert (state.status, state.attempt, state.incidents) == ("completed", 1, ())


def test_a_slow_file_system_makes_the_supervisor_slow_and_nothing_else(run, monkeypatch):
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (time.sleep(0.15), real(handle)))
    state = run.lay_out({"at": 120, "do": "level"}).supervise()
    assert (state.status, state.attempt) == ("completed", 2)
    assert run.steps(2) == list(range(101, 301))


NOTIFY = POLICY.replace("respond:\n      - [rollback,", "respond:\n      - [notify, rollback,")


def test_a_notice_that_cannot_be_delivered_holds_nothing_up(run, monkeypatch):
    monkeypatch.setenv(webhook.ADDRESS, "http://127.0.0.1:9/nobody")
    monkeypatch.setattr(webhook.send.retry, "sleep", lambda seconds: None)
    state = run.lay_out({"at": 120, "do": "level"}, policy=NOTIFY).supervise()
    assert (state.status, state.attempt) == ("completed", 2)
    (told,) = [o for o in state.actions if o.action.verb == "notify"]
    assert (told.status, told.detail) == ("done", "handed to webhook")
    assert "incident 1: persistent (high) from step 120" in told.action.why
    assert '"sent": false' in (run.dir.path / "notices.jsonl").read_text()


def test_without_an_address_the_outcome_says_that_nobody_was_told(run, monkeypatch):
    monkeypatch.delenv(webhook.ADDRESS, raising=False)
    state = run.lay_out({"at": 120, "do": "level"}, policy=NOTIFY).supervise()
    (told,) = [o for o in state.actions if o.action.verb == "notify"]
    assert told.detail.startswith("nobody is told")
