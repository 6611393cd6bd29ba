"""torch.distributed.checkpoint: folders `step-N` (any name that ends in a number) with `.metadata`, written last.

A folder saved through the trainer's hook also needs the hook's marker. One without it counts by its
`.metadata` alone, unless a checkpoint below it has a marker: then this save was cut off just before its end.
torchtitan writes the same layout and takes the highest number; its last save may be safetensors weights alone.
"""

import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator import wire
from orchestrator.checkpoints import Found, _folders, judged
from orchestrator.checkpoints._contents import empty_one
from orchestrator.checkpoints._folders import METADATA, Rules
from orchestrator.checkpoints._pointer import set_aside
from orchestrator.checkpoints._tree import Entry, entries

_INDEX = "model.safetensors.index.json"
_PARTS = ("optimizer", "scheduler", "rng", "data position")


def _look(fs: AbstractFileSystem, entry: Entry) -> Found:
    found = Found(entry.step, entry.path, True)
    if _INDEX in entry.files:
        return judged(found._replace(missing=_PARTS), empty_one(entry.files))
    if METADATA not in entry.files:
        return judged(found, f"no {METADATA}: it is being written, or its save was cut off")
    return judged(found, "" if entry.files[METADATA] else f"{METADATA} is empty")


def _inner(entry: Entry) -> tuple[str, ...]:
    return ("",) if METADATA in entry.files else ()


_RULES = Rules(re.compile(r".*?(?P<step>\d+)"), _look, _inner, _PARTS)


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every folder that is, or is becoming, a DCP checkpoint."""
    seen = [entry for entry in entries(fs, root, _RULES.name) if entry.folder and _is_dcp(entry)]
    marked = [entry for entry in seen if wire.COMPLETE in entry.files]
    found = _folders.looked(fs, seen, _RULES)
    if not marked:
        return found
    first = marked[0].step
    why = f"no {wire.COMPLETE}, which step {first} has: its save did not end"
    return [
        judged(each, why) if each.complete and each.step > first and wire.COMPLETE not in entry.files else each
        for each, entry in zip(found, seen, strict=True)
    ]


def _is_dcp(entry: Entry) -> bool:
    if re.match(r"step[-_]?\d", entry.name):
        return True
    return any(name in (METADATA, wire.COMPLETE) or name.endswith(".distcp") for name in entry.files)


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint, files against marker and metadata; "" when nothing is."""
    return _folders.verify(fs, path, _RULES, full)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many; `missing` from the keys of their metadata."""
    return _folders.check(fs, found, _RULES, full)


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Set the later ones aside: the highest number wins here."""
    return set_aside(fs, root, [each.path for each in scan(fs, root) if each.step > found.step])


def resume_hint(found: Found) -> tuple[str, ...]:
    """torchtitan's argument; a trainer with the hook reads ORCHESTRATE_RESUME and needs none."""
    return ("--checkpoint.load_step", str(found.step))
