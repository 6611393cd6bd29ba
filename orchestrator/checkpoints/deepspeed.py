"""DeepSpeed: folders `global_stepN` with a file for every rank, and the file `latest`, written after all of them.

A model state says how many ranks there were; that is read for the verdict, not for a listing. ZeRO states
are loaded by as many ranks only, unless the checkpoint is a universal one (`global_stepN_universal`).
"""

import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, _folders, judged
from orchestrator.checkpoints._contents import empty_one, top_pickle
from orchestrator.checkpoints._folders import Rules
from orchestrator.checkpoints._pickled import tops
from orchestrator.checkpoints._pointer import point
from orchestrator.checkpoints._ranks import missing_rank, numbered
from orchestrator.checkpoints._tree import Entry, text

LATEST = "latest"
_UNIVERSAL = re.compile(r"zero/.+")
_MODEL = re.compile(r"(?:zero_pp_rank_\d+_)?mp_rank_\d+_model_states\.pt")
_MODEL_GRIDS = (
    re.compile(r"mp_rank_(\d+)_model_states\.pt"),
    re.compile(r"zero_pp_rank_(\d+)_mp_rank_(\d+)_model_states\.pt"),
)
_ZERO = re.compile(r"(?:[a-z]+\d+_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")


def _look(fs: AbstractFileSystem, entry: Entry) -> Found:
    universal = numbered(entry.files, _UNIVERSAL) > 0
    zero = numbered(entry.files, _ZERO)
    found = Found(entry.step, entry.path, True, world_size=zero or None, reshards=universal or not zero)
    return judged(found, _wrong(entry))


def _wrong(entry: Entry) -> str:
    if not numbered(entry.files, _MODEL):
        return "it holds no model states: it is being written, or its save was cut off"
    grids = (*_MODEL_GRIDS, _ZERO)
    return empty_one(entry.files) or next((gap for grid in grids if (gap := missing_rank(entry.files, grid))), "")


def _count_wrong(fs: AbstractFileSystem, entry: Entry) -> str:
    """The number of optimizer files against the number of ranks that a model state names."""
    zero = numbered(entry.files, _ZERO)
    name = min(name for name in entry.files if _MODEL.fullmatch(name))
    (top,) = tops([top_pickle(fs, entry.at(name))])
    if not zero or isinstance(top, str):
        return ""
    data, model = (top.numbers.get(key) for key in ("dp_world_size", "mp_world_size"))
    if data is None or zero == data * (model or 1):
        return ""
    return f"it holds optimizer states of {zero} ranks, and {name} says {data * (model or 1)}"


_RULES = Rules(re.compile(r"global_step(?P<step>\d+)(?:_universal)?"), _look, deep=_count_wrong)


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every `global_stepN`; one above `latest` has not come to its end."""
    found = _folders.scan(fs, root, _RULES)
    latest = text(fs, f"{root.rstrip('/')}/{LATEST}") or ""
    match = _RULES.name.fullmatch(latest)
    if match is None or latest not in {_tag(each) for each in found}:
        return found
    why = f"{LATEST} still names {latest}: it is being written, or was left by a rollback"
    return [judged(each, why) if _uncommitted(each, int(match["step"])) else each for each in found]


def _tag(found: Found) -> str:
    return found.path.rpartition("/")[2]


def _uncommitted(found: Found, latest: int) -> bool:
    return found.complete and found.step > latest and not _tag(found).endswith("_universal")


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint; "" when nothing is."""
    return _folders.verify(fs, path, _RULES, full)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many."""
    return _folders.check(fs, found, _RULES, full)


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Write `latest`, or `latest_universal` for a universal one."""
    pointer = "latest_universal" if _tag(found).endswith("_universal") else LATEST
    return [point(fs, f"{root.rstrip('/')}/{pointer}", _tag(found))]


def resume_hint(found: Found) -> tuple[str, ...]:
    """None: the trainer's code calls `load_checkpoint(folder, tag)`."""
    return ()
