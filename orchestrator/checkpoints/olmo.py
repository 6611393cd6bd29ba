"""OLMo-core: folders `stepN` with `train/rankR.pt`, `model_and_optim/` (DCP) and `.metadata.json`, written last.

A folder that is a DCP checkpoint itself holds no trainer state.
"""

import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, _folders, judged
from orchestrator.checkpoints._contents import empty_one
from orchestrator.checkpoints._folders import METADATA, Rules
from orchestrator.checkpoints._pointer import set_aside
from orchestrator.checkpoints._ranks import missing_rank, numbered
from orchestrator.checkpoints._tree import Entry

_INSIDE = "model_and_optim/"
_NEEDED = ("train/rank0.pt", _INSIDE + METADATA, ".metadata.json")
_TRAIN = re.compile(r"train/rank(\d+)\.pt")


def _look(fs: AbstractFileSystem, entry: Entry) -> Found:
    found = Found(entry.step, entry.path, True, world_size=numbered(entry.files, _TRAIN) or None)
    if METADATA in entry.files:
        return found._replace(missing=("scheduler", "rng", "data position"))
    absent = next((name for name in _NEEDED if name not in entry.files), None)
    if absent:
        return judged(found, f"no {absent}: it is being written, or its save was cut off")
    return judged(found, empty_one(entry.files) or missing_rank(entry.files, _TRAIN))


def _inner(entry: Entry) -> tuple[str, ...]:
    return ("",) if METADATA in entry.files else (_INSIDE,)


_RULES = Rules(re.compile(r"step(?P<step>\d+)"), _look, _inner, ("optimizer",))


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every `stepN`."""
    return _folders.scan(fs, root, _RULES)


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint; "" when nothing is."""
    return _folders.verify(fs, path, _RULES, full)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many; `missing` from the keys of the metadata."""
    return _folders.check(fs, found, _RULES, full)


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Set the later ones aside: the highest number wins here."""
    return set_aside(fs, root, [each.path for each in scan(fs, root) if each.step > found.step])


def resume_hint(found: Found) -> tuple[str, ...]:
    """The trainer's override."""
    return (f"--trainer.load_path={found.path}",)
