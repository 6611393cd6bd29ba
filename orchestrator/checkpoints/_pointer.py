"""Moving what a trainer looks at: pointer files in one step, later checkpoints out of its sight."""

import os
from collections.abc import Iterable
from pathlib import Path

from fsspec import AbstractFileSystem

from orchestrator import wire
from orchestrator.checkpoints._tree import bare, is_local

ASIDE = "set-aside"


def point(fs: AbstractFileSystem, path: str, text: str) -> str:
    """Replace a pointer file's text in one step; says so."""
    if is_local(fs):
        wire.write_text(bare(fs, path), text)
    else:
        fs.pipe_file(path, text.encode())
    return f"{path.rsplit('/', 1)[-1]} names {text}"


def set_aside(fs: AbstractFileSystem, root: str, paths: Iterable[str]) -> list[str]:
    """Move checkpoints into the folder `set-aside` of their root, one rename each.

    Inside the root, because only there it is surely the same file system and a rename; trainers look for
    numbered names directly below the root. On anything but a mounted file system nothing is moved.
    """
    paths = list(paths)
    if not is_local(fs):
        return [f"{path} stays: on this storage nothing is moved" for path in paths]
    aside = Path(bare(fs, root)) / ASIDE
    return [done for path in paths if (done := _move(Path(path), aside))]


def _move(path: Path, aside: Path) -> str:
    aside.mkdir(exist_ok=True)
    target, copy = aside / path.name, 1
    while os.path.lexists(target):
        copy += 1
        target = aside / f"{path.name}.{copy}"
    try:
        path.rename(target)
    except FileNotFoundError:
        return ""
    return f"{path.name} moved to {ASIDE}/{target.name}"
