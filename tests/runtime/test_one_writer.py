"""One run, one supervisor: whoever comes second says so and goes, whoever lost the run stops acting."""

import os
import socket

import pytest

from orchestrator.config import RunDir
from orchestrator.core.facts import Supervised
from orchestrator.errors import RunBusyError, RunDirError
from orchestrator.runtime import lease as lease_module
from orchestrator.runtime.identity import identity
from orchestrator.runtime.lease import Lease
from orchestrator.wire import read_json, write_json


def test_a_second_supervisor_says_one_line_and_leaves_with_two(run):
    first = run.lay_out(total=1000, rate=200).start()
    run.wait_for(lambda: len(run.steps(1)) >= 10)
    second = run.start()
    said, _ = second.communicate(timeout=30)
    assert second.returncode == 2
    assert len(said.splitlines()) == 1
    assert f"another supervisor acts on this run (process {first.pid} on {socket.gethostname()})" in said
    assert first.wait(timeout=60) == 0
    assert [f.epoch for f in run.facts() if isinstance(f, Supervised)] == [1]
    assert run.steps(1) == list(range(1, 1001))
    first.communicate()


def test_of_two_that_start_at_the_same_moment_one_acts(run):
    children = [run.lay_out(total=400).start() for _ in range(2)]
    codes = sorted(child.wait(timeout=60) for child in children)
    for child in children:
        child.communicate()
    assert codes == [0, 2]
    assert run.steps(1) == list(range(1, 401))


def lease_of_another_host(folder, beat=1):
    known = {"epoch": 1, "owner": {**identity(os.getpid()), "host": "elsewhere"}, "beat": beat}
    write_json(folder / "lease.json", known)


def test_a_silent_supervisor_of_another_host_is_dead(tmp_path, monkeypatch):
    monkeypatch.setattr(lease_module, "PATIENCE", 0.6)
    lease_of_another_host(tmp_path)
    held = Lease(RunDir(tmp_path))
    assert held.epoch == 1
    held.release()


def test_a_beating_supervisor_of_another_host_is_alive(tmp_path, monkeypatch):
    lease_of_another_host(tmp_path)
    beats = iter(range(2, 100))
    monkeypatch.setattr(lease_module.time, "sleep", lambda _: lease_of_another_host(tmp_path, next(beats)))
    with pytest.raises(RunBusyError, match=r"process .* on elsewhere"):
        Lease(RunDir(tmp_path))


def test_a_lease_whose_process_number_was_used_again_is_no_life(tmp_path):
    known = {"epoch": 1, "owner": {**identity(os.getpid()), "started": 1.0}, "beat": 9}
    write_json(tmp_path / "lease.json", known)
    Lease(RunDir(tmp_path)).release()
    assert read_json(tmp_path / "lease.json") == {}


def test_who_lost_the_run_notices_before_it_writes_or_acts(run):
    lost = []

    def listen(state, fact):
        if state.step >= 50 and not lost:
            lost.append(True)
            (run.dir.epochs / "000007").touch()  # as a supervisor of another host does

    run.lay_out({"at": 120, "do": "level"})
    with pytest.raises(RunBusyError):
        run.supervise(listen)
    assert len(run.decisions()) == 1
    write_json(run.dir.lease, {})  # the other one ended as it should
    state = run.supervise()
    assert (state.status, state.epoch) == ("completed", 8)


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is unwritable for root")
def test_a_run_directory_that_cannot_be_written_is_said(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RunDirError, match="cannot be written"):
        Lease(RunDir(tmp_path))


def test_a_file_where_a_folder_must_be_is_said(tmp_path):
    (tmp_path / "epochs").write_text("")
    with pytest.raises(RunDirError, match="cannot be written"):
        Lease(RunDir(tmp_path))
