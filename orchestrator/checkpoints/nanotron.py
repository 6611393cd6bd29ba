"""nanotron: folders named by their step alone, `latest.txt` beside them, `model_config.json` written last.

Files of ranks say their rank and the number of ranks (`tp-rank-0-of-2`), so a missing one is seen. The
random state is not saved; `checkpoint_metadata.json` holds the step and the samples consumed.
"""

import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, _folders, judged
from orchestrator.checkpoints._contents import empty_one
from orchestrator.checkpoints._folders import Rules
from orchestrator.checkpoints._pointer import point
from orchestrator.checkpoints._ranks import missing_of, numbered
from orchestrator.checkpoints._tree import Entry, json_object, read

LATEST = "latest.txt"
_META, _LAST = "checkpoint_metadata.json", "model_config.json"
_WEIGHTS = re.compile(r"model/.*\.safetensors")
_HELD = {
    "optimizer": re.compile(r"optimizer/.*\.pt"),
    "scheduler": re.compile(r"lr_scheduler/.*\.pt"),
    "rng": re.compile(r"random/.*\.pt"),
}
# One axis at a time: a name's other axes stay part of its family.
_AXES = tuple(
    re.compile(rf".*[_/]{axis}(?:-rank)?-(?P<index>\d+)-of-(?P<of>\d+).*\.(?:pt|safetensors)")
    for axis in ("tp", "dp", "exp")
)
_PIPELINE = re.compile(r"optimizer/.*pp-(?P<index>\d+)-of-(?P<of>\d+).*\.pt")


def _look(fs: AbstractFileSystem, entry: Entry) -> Found:
    missing = tuple(part for part, name in _HELD.items() if not numbered(entry.files, name))
    found = Found(entry.step, entry.path, True, missing=missing)
    return judged(found, _wrong(entry) or _meta_wrong(fs, entry))


def _wrong(entry: Entry) -> str:
    absent = next((name for name in (_META, _LAST) if name not in entry.files), None)
    if absent:
        return f"no {absent}: it is being written, or its save was cut off"
    if not numbered(entry.files, _WEIGHTS):
        return "it holds no weights"
    # A pipeline stage holds layers of its own, so only the optimizer has one file a stage.
    gaps = (missing_of(entry.files, axis) for axis in (*_AXES, _PIPELINE))
    return empty_one(entry.files) or next((gap for gap in gaps if gap), "")


def _meta_wrong(fs: AbstractFileSystem, entry: Entry) -> str:
    (raw,) = read(fs, [entry.at(_META)])
    meta = json_object(raw)
    if meta is None:
        return f"{_META} is not whole"
    told = meta.get("metas")
    step = told.get("last_train_step") if isinstance(told, dict) else None
    return "" if step in (None, entry.step) else f"{_META} is of step {step}"


_RULES = Rules(re.compile(r"(?P<step>\d+)"), _look)


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every folder that is a number."""
    return _folders.scan(fs, root, _RULES)


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint; "" when nothing is."""
    return _folders.verify(fs, path, _RULES, full)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many."""
    return _folders.check(fs, found, _RULES, full)


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Write `latest.txt`."""
    return [point(fs, f"{root.rstrip('/')}/{LATEST}", str(found.step))]


def resume_hint(found: Found) -> tuple[str, ...]:
    """None: it stands in the trainer's YAML, as `checkpoints.resume_checkpoint_path`."""
    return ()
