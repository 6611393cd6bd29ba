"""Looking at checkpoints where they stand: whole paths, retried storage, and the verdict as a fact."""

import os
from typing import Any

import fsspec

from orchestrator.checkpoints import Found, Layout, check, refusal
from orchestrator.core.facts import Checkpoint
from orchestrator.errors import OrchestrateError
from orchestrator.store.patience import patiently


def whole(path: str, cwd: str) -> str:
    """A checkpoint's path as everybody can use it: the trainer may have said it relative to where it runs."""
    return path if not path or "://" in path else os.path.join(cwd, path)


def reached(path: str) -> tuple[Any, str]:
    """The file system and the path on it."""
    fs, bare = fsspec.url_to_fs(path)
    return fs, str(bare).rstrip("/")


def full_path(fs: Any, path: str) -> str:
    """A path as facts name it: plain on this host's file systems, with its protocol elsewhere."""
    return path if "file" in _protocols(fs) else str(fs.unstrip_protocol(path))


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def examined(layout: Layout, seen: Checkpoint, full: bool = False) -> Checkpoint:
    """The fact after a look at the checkpoint itself: still "saved", or "corrupt" or "missing" and why.

    Raises StorageError where nobody can tell.
    """
    try:
        return patiently(lambda: _examined(layout, seen, full))
    except OrchestrateError as error:  # digests of an algorithm that is not at hand
        return seen._replace(why=str(error))


def _examined(layout: Layout, seen: Checkpoint, full: bool) -> Checkpoint:
    fs, path = reached(seen.path)
    (found,) = check(layout, fs, [Found(seen.step, path, True)], full)
    if not found.complete:
        return seen._replace(state="missing" if found.why == "it is gone" else "corrupt", why=found.why)
    if found.finite is False:
        return seen._replace(state="corrupt", why="its weights are not finite")
    ranks = None if found.reshards else found.world_size
    return seen._replace(lacks=found.missing, ranks=ranks)


def unfit(seen: Checkpoint, ranks: object) -> str:
    """Why a launch of so many ranks cannot load it, where both are known; "" when nothing speaks against it."""
    found = Found(seen.step, seen.path, True, world_size=seen.ranks, reshards=seen.ranks is None)
    return refusal(found, ranks if isinstance(ranks, int) else None)
