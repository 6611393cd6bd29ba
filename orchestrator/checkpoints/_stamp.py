"""What changes when a checkpoint is written again: names, sizes, and times or versions as the storage tells them."""

import hashlib
import os
from typing import Any

from fsspec import AbstractFileSystem

from orchestrator.checkpoints._tree import held, is_local

_TELLING = ("mtime", "ino", "created", "ETag", "etag", "LastModified")


def stamp(fs: AbstractFileSystem, path: str) -> str:
    """A short text that stays the same as long as nobody writes to a checkpoint; "" when there is none."""
    entry = held(fs, path)
    told = [(name, size, _told(fs, entry.at(name))) for name, size in sorted(entry.files.items())]
    return hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest() if told else ""


def _told(fs: AbstractFileSystem, path: str) -> tuple[Any, ...]:
    try:
        if is_local(fs):
            stat = os.stat(path)
            return stat.st_mtime_ns, stat.st_ino
        info = fs.info(path)
    except FileNotFoundError:
        return ()
    return tuple(str(info.get(key)) for key in _TELLING)
