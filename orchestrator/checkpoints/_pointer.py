"""Moving what a trainer looks at: pointer files in one step, later checkpoints out of its sight."""

import os
from collections.abc import Iterable
from pathlib import Path

from fsspec import AbstractFileSystem

from orchestrator import wire
from orchestrator.checkpoints._tree import bare, is_local

ASIDE = "set-aside"


def replace_text(fs: AbstractFileSystem, path: str, text: str) -> None:
    """Replace a file's text in one step: a rename on a mounted file system, a single put elsewhere."""
    if is_local(fs):
        wire.write_text(bare(fs, path), text)
    else:
        fs.pipe_file(path, text.encode())


def point(fs: AbstractFileSystem, path: str, text: str) -> str:
    """Replace a pointer file's text in one step; says so."""
    replace_text(fs, path, text)
    return f"{path.rsplit('/', 1)[-1]} names {text}"


def link(root: str, name: str, target: str) -> str:
    """Make `name` in a mounted root a symbolic link to its neighbour `target`, in one step; says so."""
    aside = Path(root) / f".{name}.{os.getpid()}.tmp"
    aside.symlink_to(target)
    return replace_file(root, name, aside, target)


def replace_file(root: str, name: str, new: Path, what: str) -> str:
    """Put `new` in the place of a pointer in a mounted root, in one step; says so.

    What stood there as a file of its own is kept in the folder `set-aside`.
    """
    pointer = Path(root) / name
    if pointer.is_file() and not pointer.is_symlink():
        os.link(pointer, _free(Path(root) / ASIDE, name))
    os.replace(new, pointer)
    return f"{name} is now {what}"


def set_aside(fs: AbstractFileSystem, root: str, paths: Iterable[str]) -> list[str]:
    """Move checkpoints into the folder `set-aside` of their root, one rename each; says so.

    Inside the root, because only there it is surely the same file system and a rename; trainers look for
    numbered names directly below the root. On anything but a mounted file system nothing is moved.
    """
    paths = list(paths)
    if not is_local(fs):
        return [f"{path} stays: on this storage nothing is moved" for path in paths]
    aside = Path(bare(fs, root)) / ASIDE
    return [done for path in paths if (done := _move(Path(path), aside))]


def _move(path: Path, aside: Path) -> str:
    target = _free(aside, path.name)
    try:
        path.rename(target)
    except FileNotFoundError:
        return ""
    return f"{path.name} moved to {ASIDE}/{target.name}"


def _free(folder: Path, name: str) -> Path:
    """A path below a folder, made if need be, that nothing has taken yet."""
    folder.mkdir(exist_ok=True)
    path, copy = folder / name, 1
    while os.path.lexists(path):
        copy += 1
        path = folder / f"{name}.{copy}"
    return path
