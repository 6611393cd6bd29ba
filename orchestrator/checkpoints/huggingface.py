"""Hugging Face Trainer: folders `checkpoint-N`; `trainer_state.json` is written last and says its own step.

Beside the weights (safetensors, shards with an index, adapters, FSDP or DeepSpeed folders) stand optimizer,
scheduler and one random state a rank. The position in the data follows from the step.
"""

import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, _folders, judged
from orchestrator.checkpoints._contents import empty_one
from orchestrator.checkpoints._folders import METADATA, Rules
from orchestrator.checkpoints._pointer import set_aside
from orchestrator.checkpoints._ranks import missing_of, missing_rank, numbered
from orchestrator.checkpoints._tree import Entry, Files, json_object, read

STATE = "trainer_state.json"
_UNFINISHED = "checkpoint-is-incomplete.txt"
_WEIGHTS = re.compile(
    r"(model|pytorch_model|adapter_model)(-\d+-of-\d+)?\.(safetensors|bin)"
    r"|pytorch_model_fsdp_\d+/\.metadata|global_step\d+/.*model_states\.pt"
)
_SHARD = re.compile(r"(?:pytorch_)?model-(?P<index>\d+)-of-(?P<of>\d+)\.(?:safetensors|bin)")
_RNG = re.compile(r"rng_state_(\d+)\.pth")
_ZERO = re.compile(r"global_step\d+/.*zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_FSDP = re.compile(r"((?:pytorch_model_fsdp|optimizer)_\d+/).+")
_HELD = {
    "optimizer": re.compile(r"optimizer\.(pt|bin)|optimizer_\d+/.*|global_step\d+/.*optim_states\.pt"),
    "scheduler": re.compile(r"scheduler\.(pt|bin)"),
    "rng": re.compile(r"rng_state(_\d+)?\.pth|random_states_\d+\.pkl"),
}


def _look(fs: AbstractFileSystem, entry: Entry) -> Found:
    missing = tuple(part for part, name in _HELD.items() if not numbered(entry.files, name))
    ranks = numbered(entry.files, _RNG) or (1 if "rng_state.pth" in entry.files else None)
    reshards = not numbered(entry.files, _ZERO)
    found = Found(entry.step, entry.path, True, missing=missing, world_size=ranks, reshards=reshards)
    return judged(found, _wrong(entry) or _state_wrong(fs, entry))


def _wrong(entry: Entry) -> str:
    names = entry.files
    if _UNFINISHED in names:
        return f"{_UNFINISHED} stands in it: its save did not end"
    if not numbered(names, _WEIGHTS):
        return "it holds no weights"
    if STATE not in names:
        return f"no {STATE}, which is written last: it is being written, or its save was cut off"
    gaps = missing_of(names, _SHARD) or missing_rank(names, _RNG) or missing_rank(names, _ZERO)
    return empty_one(names) or gaps or _unlisted(names)


def _unlisted(names: Files) -> str:
    """Shards without the index that lists them, or an FSDP folder without its metadata."""
    if numbered(names, _SHARD) and not any(name.endswith(".index.json") for name in names):
        return "the index of its shards is missing"
    folders = {match[1] for name in names if (match := _FSDP.fullmatch(name))}
    return next((f"{each}{METADATA} is missing" for each in sorted(folders) if each + METADATA not in names), "")


def _state_wrong(fs: AbstractFileSystem, entry: Entry) -> str:
    (raw,) = read(fs, [entry.at(STATE)])
    state = json_object(raw)
    if state is None:
        return f"{STATE} is not whole"
    step = state.get("global_step")
    return "" if step == entry.step else f"{STATE} is of step {step}"


def _index_wrong(fs: AbstractFileSystem, entry: Entry) -> str:
    """Every shard that an index names must be there."""
    indices = [name for name in entry.files if re.fullmatch(r"[^/]*\.(safetensors|bin)\.index\.json", name)]
    for name, raw in zip(indices, read(fs, [entry.at(name) for name in indices]), strict=True):
        shards = (json_object(raw) or {}).get("weight_map")
        if not isinstance(shards, dict):
            return f"{name} is not whole"
        absent = sorted({str(shard) for shard in shards.values()} - entry.files.keys())
        if absent:
            return f"{absent[0]} is missing, which {name} names"
    return ""


def _inner(entry: Entry) -> tuple[str, ...]:
    return tuple(sorted({match[1] for name in entry.files if (match := _FSDP.fullmatch(name))}))


_RULES = Rules(re.compile(r"checkpoint-(?P<step>\d+)"), _look, _inner, deep=_index_wrong)


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every `checkpoint-N`."""
    return _folders.scan(fs, root, _RULES)


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint; "" when nothing is."""
    return _folders.verify(fs, path, _RULES, full)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many."""
    return _folders.check(fs, found, _RULES, full)


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Set the later ones aside: the highest number wins here, whole or not."""
    return set_aside(fs, root, [each.path for each in scan(fs, root) if each.step > found.step])


def resume_hint(found: Found) -> tuple[str, ...]:
    """The Trainer's argument."""
    return ("--resume_from_checkpoint", found.path)
