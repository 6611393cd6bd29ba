"""Megatron-LM: folders `iter_NNNNNNN` and the file `latest_checkpointed_iteration.txt` (a number or `release`).

torch_dist: `.metadata`, `*.distcp`, `common.pt`, and `metadata.json` last. Legacy: one folder a rank of the
model's split (`mp_rank_TT[_PPP[_EEE]]`), which only the same split can load; there the tracker is what says
that a save came to its end.
"""

import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, _folders, judged
from orchestrator.checkpoints._contents import empty_one
from orchestrator.checkpoints._folders import METADATA, Rules
from orchestrator.checkpoints._pointer import point
from orchestrator.checkpoints._ranks import missing_rank, numbered
from orchestrator.checkpoints._tree import Entry, text

TRACKER = "latest_checkpointed_iteration.txt"
_LAST = "metadata.json"
_LEGACY = re.compile(r"mp_rank_\d+.*/.+")
_GRIDS = tuple(
    re.compile(rf"mp_rank_{axes}/{name}")
    for axes in (r"(\d+)", r"(\d+)_(\d+)", r"(\d+)_(\d+)_(\d+)")
    for name in (r"model_optim_rng\.pt", r"distrib_optim\.pt")
)


def _look(fs: AbstractFileSystem, entry: Entry) -> Found:
    legacy = numbered(entry.files, _LEGACY) > 0
    found = Found(entry.step, entry.path, True, reshards=not legacy)
    return judged(found, _legacy_wrong(entry) if legacy else _wrong(entry))


def _wrong(entry: Entry) -> str:
    absent = next((name for name in (METADATA, "common.pt", _LAST) if name not in entry.files), None)
    if absent:
        return f"no {absent}: it is being written, or its save was cut off"
    return "" if entry.files[METADATA] and entry.files[_LAST] else f"{METADATA} or {_LAST} is empty"


def _legacy_wrong(entry: Entry) -> str:
    if not any(numbered(entry.files, grid) for grid in _GRIDS):
        return "no model_optim_rng.pt in its rank folders"
    wrong = empty_one(entry.files)
    return wrong or next((gap for grid in _GRIDS if (gap := missing_rank(entry.files, grid))), "")


def _inner(entry: Entry) -> tuple[str, ...]:
    return ("",) if METADATA in entry.files else ()


# The scheduler and the samples consumed stand in common.pt, which is there.
_RULES = Rules(re.compile(r"iter_(?P<step>\d+)"), _look, _inner, ("optimizer", "rng"))


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every `iter_N`; a legacy one above the tracker has not come to its end."""
    found = _folders.scan(fs, root, _RULES)
    latest = text(fs, f"{root.rstrip('/')}/{TRACKER}") or ""
    if not latest.isdecimal() or int(latest) not in {each.step for each in found}:
        return found
    why = f"{TRACKER} still says {latest}: it is being written, or was left by a rollback"
    return [judged(each, why) if _uncommitted(each, int(latest)) else each for each in found]


def _uncommitted(found: Found, latest: int) -> bool:
    return found.complete and not found.reshards and found.step > latest


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint; "" when nothing is."""
    return _folders.verify(fs, path, _RULES, full)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many; `missing` from the keys of the metadata."""
    return _folders.check(fs, found, _RULES, full)


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Write the tracker."""
    return [point(fs, f"{root.rstrip('/')}/{TRACKER}", str(found.step))]


def resume_hint(found: Found) -> tuple[str, ...]:
    """The folder that holds the checkpoints, and which one; good for one launch only."""
    return ("--load", found.path.rpartition("/")[0], "--ckpt-step", str(found.step))
