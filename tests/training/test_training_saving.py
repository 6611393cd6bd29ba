"""Checkpoints written through the hook: whole or not there, and all of the state back."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from supervised import Attempt, Task, join

from orchestrator import wire
from orchestrator.training import saving


def state_of(task: Task, **more: Any) -> dict[str, Any]:
    return {"model": task.model, "optimizer": task.optimizer, **more}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and all(map(same, one, other))
    return bool(one == other)


def trained(steps: int = 3) -> Task:
    task = Task(kind=torch.optim.AdamW)
    for _ in range(steps):
        task.learn()
    return task


def test_everything_saved_is_restored_in_place(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = trained()
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(task.optimizer, 10)
    task.learn()
    scheduler.step()
    rest = {"rng": torch.arange(5), "seen": {"web": [1, (2, "x")]}, "scheduler": scheduler}
    join(task).save(3, state_of(task, **rest))
    path = tmp_path / "checkpoints" / "step-3"
    monkeypatch.setenv(wire.RESUME, str(path))
    monkeypatch.setenv(wire.ATTEMPT, "2")

    fresh = Task(kind=torch.optim.AdamW)
    torch.nn.init.zeros_(fresh.model.weight)
    again = torch.optim.lr_scheduler.CosineAnnealingLR(fresh.optimizer, 10)
    state = state_of(fresh, rng=torch.zeros(5, dtype=torch.int64), seen=None, scheduler=again)
    assert join(fresh).restore(state) == 3
    assert torch.equal(fresh.weights(), task.weights())
    assert same(fresh.optimizer.state_dict(), task.optimizer.state_dict())
    assert again.state_dict() == scheduler.state_dict()
    assert torch.equal(state["rng"], torch.arange(5))
    assert state["seen"] == {"web": [1, (2, "x")]}
    task.learn()
    fresh.learn()
    assert torch.equal(fresh.weights(), task.weights())


def test_the_marker_tells_what_a_checkpoint_holds(attempt: Attempt, tmp_path: Path) -> None:
    task = trained()
    join(task).save(40, state_of(task))
    path = tmp_path / "checkpoints" / "step-40"
    marker = json.loads((path / wire.COMPLETE).read_text())
    files = {str(f.relative_to(path)): f.stat().st_size for f in path.rglob("*") if f.name != wire.COMPLETE}
    assert marker["files"] == files
    assert (marker["step"], marker["attempt"], marker["world_size"], marker["finite"]) == (40, 1, 1, True)
    started, saved = attempt.messages("checkpoint")
    assert (started["state"], saved["state"], saved["finite"]) == ("started", "saved", True)
    assert saved["path"] == str(path)


def test_the_folder_is_the_supervisors_choice(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATE_CHECKPOINTS", str(tmp_path / "elsewhere"))
    task = trained()
    join(task).save(1, state_of(task))
    assert (tmp_path / "elsewhere" / "step-1" / wire.COMPLETE).exists()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_marked(attempt: Attempt, tmp_path: Path, bad: float) -> None:
    task = trained()
    task.model.weight.data[0, 2] = bad
    run = join(task)
    run.save(1, state_of(task))
    run.saved(2, tmp_path / "own")
    assert [m["finite"] for m in attempt.messages("checkpoint") if m["state"] == "saved"] == [False, False]
    assert json.loads((tmp_path / "checkpoints" / "step-1" / wire.COMPLETE).read_text())["finite"] is False


def test_an_older_checkpoint_of_the_step_is_replaced(attempt: Attempt, tmp_path: Path) -> None:
    first, second = trained(1), trained(5)
    path = tmp_path / "checkpoints" / "step-7"
    path.mkdir(parents=True)
    (path / "leftover").write_text("from a save that was killed")
    run = join(first)
    run.save(7, state_of(first))
    run.save(7, state_of(second))
    assert not (path / "leftover").exists()
    assert [entry.name for entry in path.parent.iterdir()] == ["step-7"]
    fresh = Task(kind=torch.optim.AdamW)
    saving.read(path, state_of(fresh))
    assert torch.equal(fresh.weights(), second.weights())


def test_a_failed_save_is_told_and_the_complete_one_stands(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = trained()
    run = join(task)
    run.save(2, state_of(task))
    weights = task.weights()
    task.learn()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("torch.distributed.checkpoint.filesystem.FileSystemWriter.write_data", full)
        run.save(2, state_of(task))
        run.save(3, state_of(task))
    states = [(m["step"], m["state"]) for m in attempt.messages("checkpoint")]
    assert states[2:] == [(2, "started"), (2, "failed"), (3, "started"), (3, "failed")]
    assert "No space left on device" in capsys.readouterr().err
    fresh = Task(kind=torch.optim.AdamW)
    assert saving.read(tmp_path / "checkpoints" / "step-2", state_of(fresh)) == 2
    assert torch.equal(fresh.weights(), weights)
    run.save(3, state_of(task))
    assert attempt.messages("checkpoint")[-1]["state"] == "saved"


def test_what_cannot_be_saved_does_not_stop_training(attempt: Attempt, capsys: pytest.CaptureFixture[str]) -> None:
    task = trained()
    run = join(task)
    run.save(1, {"model": task.model, "lock": lambda: None})
    assert attempt.messages("checkpoint")[-1]["state"] == "failed"
    assert capsys.readouterr().err.count("\n") == 1
    run.save(2, state_of(task))
    assert attempt.messages("checkpoint")[-1]["state"] == "saved"


def test_a_resume_that_cannot_be_raises(attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = trained()
    run = join(task)
    run.save(1, state_of(task))
    path = tmp_path / "checkpoints" / "step-1"
    monkeypatch.setenv(wire.RESUME, str(path))
    with pytest.raises(KeyError, match="holds no 'ema'"):
        run.restore(state_of(task, ema=1))
    (path / wire.COMPLETE).unlink()
    with pytest.raises(FileNotFoundError, match="no complete checkpoint"):
        run.restore(state_of(task))
