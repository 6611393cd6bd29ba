"""torch.distributed.checkpoint: folders `step-N` (any name that ends in a number) with `.metadata`, written last.

A folder saved through the trainer's hook also needs the hook's marker. One without it counts by its
`.metadata` alone, unless a checkpoint below it has a marker: then this save was cut off just before its end.
torchtitan writes the same layout, takes the highest number, and may export bare safetensors weights in the end.
"""

import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator import wire
from orchestrator.checkpoints import Found, judged
from orchestrator.checkpoints._marker import Marker, broken, read_markers, signed
from orchestrator.checkpoints._pickled import Metadata, metadata
from orchestrator.checkpoints._pointer import set_aside
from orchestrator.checkpoints._tree import Entry, bare, entries, files_of, read, short_of

METADATA = ".metadata"
_NAME = re.compile(r"(?P<prefix>.*?)(?P<step>\d+)")
_BATCH = 64


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every folder that is, or is becoming, a DCP checkpoint."""
    seen = [entry for entry in entries(fs, root, _NAME) if entry.folder and _is_dcp(entry)]
    markers = read_markers(fs, seen)
    first = min((entry.step for entry in seen if entry.path in markers), default=None)
    return [_look(entry, markers.get(entry.path), first) for entry in seen]


def _is_dcp(entry: Entry) -> bool:
    if re.match(r"step[-_]?\d", entry.name):
        return True
    return any(name in (METADATA, wire.COMPLETE) or name.endswith(".distcp") for name in entry.files)


def _look(entry: Entry, marker: Marker | None, first_marked: int | None) -> Found:
    wrong = _listed_wrong(entry, marker)
    if not wrong and marker is None and first_marked is not None and first_marked < entry.step:
        wrong = f"no {wire.COMPLETE}, which step {first_marked} has: its save did not end"
    return signed(Found(entry.step, entry.path, not wrong, wrong), marker)


def _listed_wrong(entry: Entry, marker: Marker | None) -> str:
    if not entry.files:
        return "it is empty"
    if METADATA not in entry.files:
        return f"no {METADATA}: it is being written, or its save was cut off"
    if not entry.files[METADATA]:
        return f"{METADATA} is empty"
    return broken(marker, entry) if marker else ""


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint, files against marker and metadata; "" when nothing is."""
    return check(fs, [Found(_step(path), path, True)], full)[0].why


def _step(path: str) -> int:
    match = _NAME.fullmatch(path.rstrip("/").rsplit("/", 1)[-1])
    return int(match["step"]) if match else 0


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many, the metadata of a batch in one child process; `missing` from the keys of the metadata."""
    checked = list(found)
    asked = [at for at, each in enumerate(found) if each.complete]
    for start in range(0, len(asked), _BATCH):
        batch = asked[start : start + _BATCH]
        for at, result in zip(batch, _check(fs, [found[at] for at in batch]), strict=True):
            checked[at] = result
    return checked


def _check(fs: AbstractFileSystem, found: Sequence[Found]) -> list[Found]:
    seen = [Entry(each.step, "", bare(fs, each.path), files_of(fs, each.path)) for each in found]
    markers = read_markers(fs, seen)
    wrong = ["it is gone" if not e.files else _listed_wrong(e, markers.get(e.path)) for e in seen]
    sound = [at for at, why in enumerate(wrong) if not why]
    told = metadata([raw or b"" for raw in read(fs, [f"{seen[at].path}/{METADATA}" for at in sound])])
    results = [judged(each, why) for each, why in zip(found, wrong, strict=True)]
    for at, meta in zip(sound, told, strict=True):
        results[at] = _against(found[at], seen[at], meta)
    return results


def _against(found: Found, entry: Entry, told: Metadata | str) -> Found:
    if isinstance(told, str):
        return judged(found, f"{METADATA}: {told}")
    wanted = ("optimizer", "scheduler", "rng", "data position")
    missing = tuple(part for part in wanted if part not in told.parts)
    return judged(found._replace(missing=missing), short_of(entry.files, told.ends, exact=False))


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Set the later ones aside: the highest number wins here."""
    return set_aside(fs, root, [each.path for each in scan(fs, root) if each.step > found.step])


def resume_hint(found: Found) -> tuple[str, ...]:
    """torchtitan's argument; a trainer with the hook reads ORCHESTRATE_RESUME and needs none."""
    return ("--checkpoint.load_step", str(found.step))
