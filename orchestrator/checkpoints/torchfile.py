"""One file of torch.save: `ckpt-500.pt`, `ckpt.pt` overwritten in place, litgpt's `step-500/lit_model.pth`.

A trainer that overwrites its one file leaves no history: `archive` takes a copy of each state, once it is whole.
"""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, _files
from orchestrator.checkpoints._contents import torch_wrong
from orchestrator.checkpoints._pointer import replace_file
from orchestrator.checkpoints._tree import Entry, bare, entries, held, is_local

STEPS = ("iter_num", "global_step", "step", "iteration", "iter", "step_count")
_LITGPT = "lit_model.pth"
_NAME = re.compile(r"(?:.*?(?P<step>\d+))?\D*\.(?:pt|pth)|step-\d+")
_PARTS = {
    "optimizer": re.compile(r"optim", re.IGNORECASE),
    "scheduler": re.compile(r"sched", re.IGNORECASE),
    "rng": re.compile(r"rng|random", re.IGNORECASE),
}


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every torch file; its step from its name, else from the dict inside."""
    seen = [each for each in entries(fs, root, _NAME) if not each.folder or _LITGPT in each.files]
    return _files.stepped(fs, seen, [_named_step(each) for each in seen], STEPS)


def _named_step(entry: Entry) -> int | None:
    if entry.folder:
        return int(entry.name.removeprefix("step-"))
    match = _NAME.fullmatch(entry.name)
    return int(match["step"]) if match and match["step"] else None


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one file; "" when nothing is."""
    return _files.verify(fs, path, full)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many; `missing` from the keys of the dict inside."""
    return _files.check(fs, found, _PARTS, full)


def archive_path(path: str, step: int) -> str:
    """Where a file that is overwritten in place is archived; "" for one whose name has its step.

    >>> archive_path("run/ckpt.pt", 500), archive_path("run/ckpt-500.pt", 500)
    ('run/ckpt-500.pt', '')
    """
    parent, slash, name = path.rpartition("/")
    match = _NAME.fullmatch(name)
    if match is None or match["step"] or "." not in name:
        return ""
    stem, _, ending = name.rpartition(".")
    return f"{parent}{slash}{stem}-{step}.{ending}"


def archive(fs: AbstractFileSystem, path: str, target: str) -> str:
    """Copy a file that its trainer overwrites in place, once it is whole and stands still; "" when done, else why not.

    Never a hard link: the next save truncates the very file that a link would share. `target` appears in one
    step and only after every byte of the copy was checked, and that it still is of the step in the target's name: a
    trainer may have saved again since somebody looked.
    """
    before = _stamp(fs, path)
    if before is None:
        return "it is gone"
    wrong = torch_wrong(fs, path, before[0])
    if wrong:
        return f"it {wrong}"
    aside = f"{target}.partial"
    _copy(fs, path, aside)
    wrong = torch_wrong(fs, aside, held(fs, aside).files[aside.rpartition("/")[2]], checksums=True)
    why = f"its copy {wrong}" if wrong else ""
    if not why and _stamp(fs, path) != before:
        why = "it changed while it was copied"
    if why := why or _of_another_step(fs, aside, target):
        fs.rm_file(aside)
        return why
    if is_local(fs):
        os.replace(aside, target)
    else:
        fs.mv(aside, target)
    return ""


def _of_another_step(fs: AbstractFileSystem, path: str, target: str) -> str:
    """Why a copy does not belong under this name; loops that count from 0 and from 1 mean the same step."""
    match = _NAME.fullmatch(target.rpartition("/")[2])
    step = _files.step_inside(_files.inside(fs, [path])[0], STEPS)
    if step is None or match is None or not match["step"] or abs(step - int(match["step"])) <= 1:
        return ""
    return f"it is of step {step} by now"


def _stamp(fs: AbstractFileSystem, path: str) -> tuple[int, tuple[object, ...]] | None:
    """What changes when a file is written: size, time, inode, and what an object store calls its version."""
    try:
        info = fs.info(path, refresh=True) if not is_local(fs) else fs.info(path)
    except FileNotFoundError:
        return None
    return int(info["size"]), tuple(
        info.get(key) for key in ("mtime", "ino", "created", "ETag", "etag", "LastModified")
    )


def _copy(fs: AbstractFileSystem, source: str, target: str) -> None:
    if not is_local(fs):
        fs.cp_file(source, target)
        return
    # Where the file system can, this shares the blocks instead of moving them.
    with open(source, "rb") as old, open(target, "wb") as new:
        while _in_kernel(old.fileno(), new.fileno()):
            pass
        shutil.copyfileobj(old, new, 1 << 22)
        new.flush()
        os.fsync(new.fileno())


def _in_kernel(source: int, target: int) -> int:
    try:
        return os.copy_file_range(source, target, 1 << 30)
    except (OSError, AttributeError):
        return 0


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Put a copy of an archived `ckpt-500.pt` in the place of `ckpt.pt`, which is what its trainer loads."""
    name = found.path.rpartition("/")[2]
    plain = re.sub(r"[-_.]?\d+(?=\D*$)", "", name)
    root = bare(fs, root)
    path = f"{root}/{plain}"
    if plain == name or not re.fullmatch(r".+\.(pt|pth)", plain) or not fs.exists(path):
        return []
    if not is_local(fs):
        return [f"{path} stays: on this storage nothing is moved"]
    aside = Path(root) / f".{plain}.{os.getpid()}.tmp"
    _copy(fs, found.path, str(aside))
    return [replace_file(root, plain, aside, name)]


def resume_hint(found: Found) -> tuple[str, ...]:
    """litgpt takes a path; plain loops load the file that they wrote."""
    litgpt = re.fullmatch(r"step-\d+", found.path.rpartition("/")[2])
    return ("--resume", f"{found.path}/{_LITGPT}") if litgpt else ()
