"""Checkpoints written while training goes on, and where fsspec reaches."""

import errno
import json
import threading
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from supervised import Attempt, Task, join

from orchestrator import wire
from orchestrator.checkpoints import dcp
from orchestrator.training import saving
from orchestrator.training.run import Run


class Gate:
    """Holds back the bytes of a save until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from torch.distributed.checkpoint.filesystem import FileSystemWriter

        self.opened, write = threading.Event(), FileSystemWriter.write_data

        def held(*args: Any, **kwargs: Any) -> Any:
            assert self.opened.wait(60)
            return write(*args, **kwargs)

        monkeypatch.setattr(FileSystemWriter, "write_data", held)


def states(attempt: Attempt) -> list[tuple[int, str]]:
    return [(m["step"], m["state"]) for m in attempt.messages("checkpoint")]


def await_done(run: Run) -> None:
    pending = run._pending  # type: ignore[attr-defined]
    pending[3]._writing.exception(timeout=60)


def test_training_goes_on_while_it_is_written_and_it_counts_once_it_is_durable(
    attempt: Attempt, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    run = join(task)
    before = task.weights()
    run.save(1, {"model": task.model, "optimizer": task.optimizer}, wait=False)
    for step in (2, 3):
        run.step(step, loss=task.learn())
    path = tmp_path / "checkpoints" / "step-1"
    assert states(attempt) == [(1, "started")]
    assert not path.exists()
    gate.opened.set()
    await_done(run)
    assert states(attempt) == [(1, "started")], "a checkpoint without its marker is none"
    run.step(4, loss=task.learn())
    assert states(attempt) == [(1, "started"), (1, "saved")]
    assert json.loads((path / wire.COMPLETE).read_text())["step"] == 1
    fresh = Task()
    saving.read(path, {"model": fresh.model})
    assert torch.equal(fresh.weights(), before), "it holds the weights of the moment it was asked for"


def test_a_second_save_and_the_end_wait_for_the_one_before(
    attempt: Attempt, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = join(task)
    for step, _ in run.steps([0], total=3):
        run.step(step, loss=1.0)
        run.save(step, {"model": task.model}, wait=False)
    assert states(attempt) == [(s, state) for s in (1, 2, 3) for state in ("started", "saved")]
    assert attempt.lines()[-1]["type"] == "end"
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step-1", "step-2", "step-3"]


def test_a_stop_at_once_does_not_wait(attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    run = join(task)
    run.save(1, {"model": task.model}, wait=False)
    attempt.direct(stop="now")
    run.step(2, loss=1.0)
    assert run.stop_requested
    run._at_exit()  # type: ignore[attr-defined]
    assert states(attempt) == [(1, "started")]
    gate.opened.set()


def test_a_full_disk_is_told_with_its_words_and_training_goes_on(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = join(task)
    with monkeypatch.context() as patched:
        patched.setattr("torch.distributed.checkpoint.filesystem.FileSystemWriter.write_data", full)
        run.save(1, {"model": task.model})
        run.save(2, {"model": task.model}, wait=False)
        await_done(run)
    run.step(3, loss=1.0)
    failed = [m for m in attempt.messages("checkpoint") if m["state"] == "failed"]
    assert [m["step"] for m in failed] == [1, 2]
    assert all("No space left on device" in m["why"] for m in failed)


def test_the_marker_says_which_run_it_is_of(
    attempt: Attempt, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.RUN, "a1b2")
    join(task).save(1, {"model": task.model})
    fs, root = fsspec.url_to_fs(str(tmp_path / "checkpoints"))
    assert [(each.run, each.attempt) for each in dcp.scan(fs, root)] == [("a1b2", 1)]


@pytest.mark.parametrize("wait", [True, False])
def test_a_url_is_as_good_as_a_folder(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    monkeypatch.setenv(wire.CHECKPOINTS, "memory://later/run")
    run = join(task)
    for step, _ in run.steps([0], total=2):
        run.step(step, loss=task.learn())
        run.save(step, {"model": task.model, "optimizer": task.optimizer, "seen": step}, wait=wait)
    fs = fsspec.filesystem("memory")
    found = dcp.scan(fs, "/later/run")
    assert [(each.step, each.complete) for each in found] == [(1, True), (2, True)]
    assert dcp.verify(fs, found[1].path) == ""
    fresh = Task()
    state = {"model": fresh.model, "optimizer": fresh.optimizer, "seen": None}
    monkeypatch.setenv(wire.RESUME, "memory://later/run/step-2")
    monkeypatch.setenv(wire.ATTEMPT, "2")
    assert join(fresh).restore(state) == 2
    assert torch.equal(fresh.weights(), task.weights())
    assert state["seen"] == 2
    fs.rm("/later", recursive=True)
