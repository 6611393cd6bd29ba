"""PyTorch Lightning: files `*.ckpt` (or sharded folders of that name); `last.ckpt` is a file, a copy or a link.

The step stands in most names (`epoch=3-step=1000.ckpt`), else in the file. Under Slurm the highest
`hpc_ckpt_N.ckpt` is taken unasked, whatever its step.
"""

import os
import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, _files, _folders, judged
from orchestrator.checkpoints._folders import METADATA, Rules
from orchestrator.checkpoints._pointer import link, set_aside
from orchestrator.checkpoints._tree import Entry, bare, entries, is_local

LAST = "last.ckpt"
_STEP = re.compile(r"(?:^|[^a-z])step=(?P<step>\d+)")
_UNASKED = re.compile(r"hpc_ckpt_\d+\.ckpt|last-v\d+\.ckpt")
_SHARDED_META = "meta.pt"
_PARTS = {
    "weights": re.compile(r"^state_dict$"),
    "optimizer": re.compile(r"^optimizer_states$"),
    "scheduler": re.compile(r"^lr_schedulers$"),
    "data position": re.compile(r"^loops$"),
}


def _look(fs: AbstractFileSystem, entry: Entry) -> Found:
    absent = next((name for name in (METADATA, _SHARDED_META) if name not in entry.files), None)
    why = f"no {absent}: it is being written, or its save was cut off" if absent else ""
    return Found(entry.step, entry.path, not why, why)


_RULES = Rules(re.compile(r".*\.ckpt"), _look, lambda entry: ("",), ("optimizer",))


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every `.ckpt` but links, in the order of steps; the dict inside is read where a name has no step."""
    seen = [each for each in entries(fs, root, _RULES.name) if not (is_local(fs) and os.path.islink(each.path))]
    named = [int(match["step"]) if (match := _STEP.search(each.name)) else None for each in seen]
    folders = {each.path: _look(fs, each) for each in seen if each.folder}
    files = _files.stepped(fs, [_loadable(each) for each in seen], named, ("global_step",))
    return [_sharded(each, folders) for each in files]


def _loadable(entry: Entry) -> Entry:
    """A sharded folder keeps its trainer's state, the step included, in a file of its own."""
    return entry._replace(path=f"{entry.path}/{_SHARDED_META}") if entry.folder else entry


def _sharded(found: Found, folders: dict[str, Found]) -> Found:
    folder = folders.get(found.path.removesuffix(f"/{_SHARDED_META}"))
    if folder is None:
        return found
    return judged(found._replace(path=folder.path), folder.why)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many; `missing` from the keys of the dict, or of the metadata of a sharded one."""
    sharded = {each.path for each in found if fs.isdir(each.path)}
    files = _files.check(fs, [each for each in found if each.path not in sharded], _PARTS, full)
    folders = _folders.check(fs, [each for each in found if each.path in sharded], _RULES, full)
    by_path = {each.path: each for each in (*files, *folders)}
    return [by_path[each.path] for each in found]


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint; "" when nothing is."""
    return check(fs, [Found(0, bare(fs, path), True)], full)[0].why


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Link `last.ckpt` to it, and set aside the later ones that are taken unasked."""
    root = bare(fs, root)
    name = found.path.rpartition("/")[2]
    later = [each for each in scan(fs, root) if each.step > found.step]
    done = set_aside(fs, root, [each.path for each in later if _UNASKED.fullmatch(each.path.rpartition("/")[2])])
    if name == LAST or not fs.exists(f"{root}/{LAST}"):
        return done
    if not is_local(fs):
        return [*done, f"{root}/{LAST} stays: on this storage nothing is moved"]
    return [*done, link(root, LAST, name)]


def resume_hint(found: Found) -> tuple[str, ...]:
    """LightningCLI's argument; other trainers pass `ckpt_path` to `fit` themselves."""
    return ("--ckpt_path", found.path)
