"""DCP folders written by torch itself, then damaged: what scan and verify say of them."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
import torch
import torch.distributed.checkpoint as dist_cp

from orchestrator import wire
from orchestrator.checkpoints import check, dcp, refusal

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
FS = fsspec.filesystem("file")


def save(root: Path, step: int, marked: bool = False, **state: object) -> Path:
    """A checkpoint of torch's own writer, with the hook's marker when `marked`."""
    folder = root / f"step-{step}"
    state = state or {"model": {"w": torch.arange(64.0)}, "optimizer": {"m": torch.zeros(64)}}
    dist_cp.save(state, checkpoint_id=folder, no_dist=True)
    if marked:
        mark(folder, step)
    return folder


def mark(folder: Path, step: int, **more: object) -> None:
    sizes = {p.name: p.stat().st_size for p in folder.iterdir() if p.name != wire.COMPLETE}
    marker = {"step": step, "attempt": 2, "world_size": 1, "time": 1.0, "finite": True, "files": sizes, **more}
    (folder / wire.COMPLETE).write_text(json.dumps(marker))


def data_file(folder: Path) -> Path:
    return next(folder.glob("*.distcp"))


def test_numbers_sort_as_numbers_and_the_marker_names_the_writer(tmp_path):
    for step in (9000, 10000, 200):
        save(tmp_path, step, marked=True)
    mark(tmp_path / "step-200", 200, run="r1")

    found = dcp.scan(FS, str(tmp_path))

    assert [each.step for each in found] == [200, 9000, 10000]
    assert found[0].path == str(tmp_path / "step-200")
    assert (found[1].complete, found[1].attempt, found[1].world_size, found[1].finite) == (True, 2, 1, True)
    assert (found[0].run, found[1].run) == ("r1", None)
    assert [dcp.verify(FS, each.path) for each in found] == ["", "", ""]


def test_a_folder_of_another_writer_needs_no_marker_and_may_have_any_name_with_a_number(tmp_path):
    save(tmp_path, 5).rename(tmp_path / "bad-step-5")
    (tmp_path / "tb-3").mkdir()
    (found,) = dcp.scan(FS, str(tmp_path))
    assert (found.step, found.complete, found.attempt) == (5, True, None)


def test_without_its_marker_a_save_after_marked_ones_did_not_end(tmp_path):
    save(tmp_path, 5)
    save(tmp_path, 10, marked=True)
    save(tmp_path, 20)
    assert [(f.step, f.complete, f.why) for f in dcp.scan(FS, str(tmp_path))] == [
        (5, True, ""),
        (10, True, ""),
        (20, False, "no orchestrate.json, which step 10 has: its save did not end"),
    ]


@pytest.mark.parametrize("name", [".step-7", "step-7.tmp", "tmp-step-7", "step-7.partial"])
def test_hidden_and_temporary_folders_are_no_checkpoints(tmp_path, name):
    save(tmp_path, 7).rename(tmp_path / name)
    assert dcp.scan(FS, str(tmp_path)) == []


def test_no_root_is_no_checkpoints(tmp_path):
    assert dcp.scan(FS, str(tmp_path / "never")) == []


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: (f / ".metadata").unlink(), "no .metadata: it is being written, or its save was cut off"),
        (lambda f: (f / ".metadata").write_bytes(b""), ".metadata is empty"),
        (lambda f: data_file(f).unlink(), "__0_0.distcp is missing"),
        (lambda f: os.truncate(data_file(f), 100), "__0_0.distcp holds 100 of "),
        (lambda f: os.truncate(data_file(f), 1_000_000), "__0_0.distcp holds 1000000 of "),
        (lambda f: (f / wire.COMPLETE).write_text('{"step": 7'), "orchestrate.json is not whole"),
        (lambda f: mark(f, 6), "orchestrate.json is of step 6"),
    ],
)
def test_a_marked_folder_is_judged_by_the_scan_alone(tmp_path, damage, why):
    damage(save(tmp_path, 7, marked=True))
    (found,) = dcp.scan(FS, str(tmp_path))
    assert not found.complete
    assert found.why.startswith(why)
    assert dcp.verify(FS, found.path) == found.why


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: data_file(f).unlink(), "__0_0.distcp is missing"),
        (lambda f: os.truncate(data_file(f), data_file(f).stat().st_size - 1), "__0_0.distcp holds "),
        (lambda f: os.truncate(f / ".metadata", 300), ".metadata: its pickle cannot be read: "),
        (lambda f: (f / ".metadata").write_bytes(pickle.dumps({"a": 1})), ".metadata: it is no metadata of torch"),
    ],
)
def test_without_a_marker_the_metadata_convicts(tmp_path, damage, why):
    damage(save(tmp_path, 7))
    (found,) = dcp.scan(FS, str(tmp_path))
    assert found.complete
    assert dcp.verify(FS, found.path).startswith(why)


class Touch:
    """Pickled, it is a call that creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


def test_a_malicious_pickle_does_nothing_and_is_named(tmp_path):
    folder, sign = save(tmp_path, 7), tmp_path / "ran"
    (folder / ".metadata").write_bytes(pickle.dumps(Touch(sign)))

    assert dcp.verify(FS, str(folder)).endswith("it names posix.mkdir, which no checkpoint metadata needs")
    assert not sign.exists()
    pickle.loads((folder / ".metadata").read_bytes())
    assert sign.exists(), "the pickle of this test is harmless by itself"


def test_one_broken_checkpoint_does_not_hurt_the_rest_of_its_batch(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step)
    # Deep nesting, which exhausts a reader that recurses.
    (tmp_path / "step-2" / ".metadata").write_bytes(b"\x80\x02" + b"]" * 10 + b"(" * 100_000)
    checked = check(dcp, FS, dcp.scan(FS, str(tmp_path)))
    assert [each.complete for each in checked] == [True, False, True]


def test_a_scan_starts_no_process_and_a_batch_is_verified_by_one(tmp_path, monkeypatch):
    for step in range(1, 11):
        save(tmp_path, step)
    started, real = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *args, **rest: started.append(args) or real(*args, **rest))
    found = dcp.scan(FS, str(tmp_path))
    assert started == []
    assert all(each.complete for each in check(dcp, FS, found))
    assert len(started) == 1


def test_neither_scan_nor_verification_needs_torch(tmp_path):
    save(tmp_path, 1)
    code = (
        "import sys, fsspec; from orchestrator.checkpoints import dcp; fs = fsspec.filesystem('file');"
        "print([dcp.verify(fs, each.path) for each in dcp.scan(fs, sys.argv[1])], 'torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert told.stdout.strip() == "[''] False", told.stderr


def test_weights_alone_are_told_by_the_keys_of_the_metadata(tmp_path):
    save(tmp_path, 1, model={"w": torch.ones(3)})
    save(tmp_path, 2, model={"w": torch.ones(3)}, optimizer={"m": torch.ones(3)}, lr_scheduler={"e": 1},
         rng=torch.get_rng_state(), dataloader={"at": 3})  # fmt: skip
    alone, whole = check(dcp, FS, dcp.scan(FS, str(tmp_path)))
    assert alone.missing == ("optimizer", "scheduler", "rng", "data position")
    assert refusal(alone) == "step 1 holds no optimizer"
    assert (whole.missing, refusal(whole)) == ((), "")


def test_rolling_back_sets_later_ones_aside_in_one_rename_each(tmp_path):
    for step in (100, 200, 300):
        save(tmp_path, step)
    (tmp_path / "set-aside" / "step-300").mkdir(parents=True)
    target = dcp.scan(FS, str(tmp_path))[0]

    done = dcp.point_to(FS, str(tmp_path), target)

    assert done == ["step-200 moved to set-aside/step-200", "step-300 moved to set-aside/step-300.2"]
    assert dcp.scan(FS, str(tmp_path)) == [target]
    assert dcp.verify(FS, str(tmp_path / "set-aside" / "step-200")) == ""
    assert dcp.point_to(FS, str(tmp_path), target) == []


def test_on_an_object_store_nothing_is_moved(tmp_path):
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/run/step-1/.metadata": b"x", "/bucket/run/step-2/.metadata": b"x"})
    try:
        found = dcp.scan(memory, "memory://bucket/run")
        assert [(each.step, each.path, each.complete) for each in found] == [
            (1, "/bucket/run/step-1", True),
            (2, "/bucket/run/step-2", True),
        ]
        assert dcp.point_to(memory, "/bucket/run", found[0]) == [
            "/bucket/run/step-2 stays: on this storage nothing is moved"
        ]
        assert dcp.scan(memory, "/bucket/run") == found
    finally:
        memory.rm("/bucket", recursive=True)
