"""A run whose job is, or was, on another host; and the supervisor as the first process of a container."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from orchestrator.runtime import watch
from orchestrator.wire import read_json, write_json
from tests.runtime.scripted import ROOT, Run


def moved_away(run: Run, **changed: object) -> None:
    """As if the job's processes had been started somewhere else."""
    path = run.dir.attempt(1).process
    process = {**read_json(path), **changed}
    write_json(path, {**process, "keeper": {**process["keeper"], **changed}})


def interrupted(run: Run) -> None:
    """A run whose supervisor, keeper and job were killed at once, as a scheduler does it."""
    child = run.start()
    run.wait_for(lambda: len(run.steps(1)) >= 70)
    child.kill()
    child.communicate()
    for process in run.processes():
        process.kill()
    run.wait_for(lambda: not run.processes())


def test_after_the_loss_of_everything_the_same_command_goes_on_from_the_checkpoint(run):
    interrupted(run.lay_out(rate=200))
    state = run.supervise()
    assert (state.status, state.attempt, state.step) == ("completed", 2, 300)
    assert 60 <= state.attempts[1].start_step <= len(run.steps(1)) <= state.attempts[1].start_step + 20


def test_a_job_of_an_earlier_boot_of_this_host_is_gone(run):
    interrupted(run.lay_out(rate=200))
    moved_away(run, boot="0000-before")
    state = run.supervise()
    assert (state.status, state.attempt) == ("completed", 2)
    assert [i.cls for i in state.incidents] == ["host"]


def test_a_job_of_another_host_is_gone_when_its_keeper_counts_no_more(run, monkeypatch):
    monkeypatch.setattr(watch, "FAR_PATIENCE", 0.5)
    interrupted(run.lay_out(rate=200))
    moved_away(run, host="elsewhere")
    state = run.supervise()
    assert (state.status, state.attempt) == ("completed", 2)
    assert state.incidents[0].reason == "host elsewhere of the job is gone, or was started anew"


def test_a_job_of_another_host_is_adopted_and_stopped_through_files(run, monkeypatch):
    """Its keeper lives: it counts on, and hears the file where no signal reaches it."""
    monkeypatch.setattr(watch, "FAR_PATIENCE", 6.0)
    child = run.lay_out(
        {"at": 130, "do": "level"}, {"at": 125, "do": "ignore", "attempts": 1}, rate=200, stop_grace=0.3
    ).start()
    run.wait_for(lambda: len(run.steps(1)) >= 70)
    child.kill()
    child.communicate()
    moved_away(run, host="elsewhere")
    monkeypatch.setattr("orchestrator.runtime.world.SILENT", 0.2)
    state = run.supervise()
    assert run.dir.attempt(1).end.exists()
    assert state.attempts[0].exited.signal == 15
    assert (state.status, state.attempt) == ("completed", 2)


@pytest.mark.skipif(
    shutil.which("unshare") is None or os.getuid() != 0, reason="needs unshare and root for a process namespace"
)
def test_as_process_one_it_waits_for_every_orphan(tmp_path: Path):
    code = textwrap.dedent("""
        import subprocess, sys, time
        import psutil
        from orchestrator.runtime.reaper import Reaper
        subprocess.run(["sh", "-c", "sleep 0.1 & sleep 0.1 & exit 0"])
        reaper, deadline = Reaper(), time.monotonic() + 20
        while psutil.Process().children() and time.monotonic() < deadline:
            reaper.look()
            time.sleep(0.05)
        import os
        print(os.getpid(), len(psutil.Process().children()))
    """)
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"no process namespace here: {done.stderr.strip()}")
    assert done.stdout.split() == ["1", "0"], done.stderr
