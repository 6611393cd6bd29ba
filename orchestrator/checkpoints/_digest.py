"""Digests of every byte, written right after a save: what a later full verification compares with.

XXH3-128 where xxhash is installed, else BLAKE2b; SHA-256 on request. They guard against accident: whoever
can change a checkpoint can change the digests beside it.
"""

import hashlib
import importlib
import importlib.util
import json
from typing import Any

from fsspec import AbstractFileSystem

from orchestrator.checkpoints._pointer import replace_text
from orchestrator.checkpoints._tree import Entry, held, json_object, read
from orchestrator.errors import ConfigError

DIGESTS = ".orchestrate.digests.json"
ALGORITHMS = ("xxh3_128", "blake2b", "sha256")
_CHUNK = 1 << 22


def write_digests(fs: AbstractFileSystem, path: str, algorithm: str = "") -> str:
    """Read a checkpoint once and write its digests; "" when done, else why not."""
    algorithm = algorithm or ("xxh3_128" if importlib.util.find_spec("xxhash") else "blake2b")
    entry = held(fs, path)
    if not entry.files:
        return "it is gone"
    files = {}
    for name, size in sorted(entry.files.items()):
        if name.endswith(DIGESTS):
            continue
        read_bytes, digest = _digest(fs, entry.at(name), algorithm)
        if read_bytes != size:
            return f"{name} changed while it was read"
        files[name] = {"size": size, "digest": digest}
    replace_text(fs, digests_path(entry), json.dumps({"algorithm": algorithm, "files": files}))
    return ""


def digests_path(entry: Entry) -> str:
    """Inside a folder; beside a single file, hidden."""
    return entry.at(DIGESTS if entry.folder else f".{entry.name}{DIGESTS}")


def wrong_digest(fs: AbstractFileSystem, entry: Entry) -> str | None:
    """The first file that is not what was saved, "" when all are; None when no digests were written.

    Raises ConfigError when they were taken by an algorithm that is not at hand: that says nothing about the files.
    """
    (raw,) = read(fs, [digests_path(entry)])
    if raw is None:
        return None
    value = json_object(raw)
    if value is None or not isinstance(value.get("files"), dict):
        return f"{DIGESTS} is not whole"
    for name, promised in sorted(value["files"].items()):
        if name not in entry.files:
            return f"{name} is missing"
        if entry.files[name] != promised["size"]:
            return f"{name} holds {entry.files[name]} of {promised['size']} bytes"
        if _digest(fs, entry.at(name), str(value.get("algorithm")))[1] != promised["digest"]:
            return f"{name} is not what was saved: its digest differs"
    return ""


def _digest(fs: AbstractFileSystem, path: str, algorithm: str) -> tuple[int, str]:
    state, size = _hasher(algorithm), 0
    with fs.open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
            size += len(chunk)
    return size, str(state.hexdigest())


def _hasher(algorithm: str) -> Any:
    if algorithm not in ALGORITHMS:
        raise ConfigError(f"there is no digest algorithm {algorithm!r}; known are {', '.join(ALGORITHMS)}")
    if algorithm != "xxh3_128":
        return hashlib.new(algorithm)
    try:
        return importlib.import_module("xxhash").xxh3_128()
    except ModuleNotFoundError as missing:
        raise ConfigError("the digests are XXH3-128, and the package xxhash is not installed here") from missing
