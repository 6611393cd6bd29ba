"""What stands below a root: the entries whose names may be checkpoints, with the size of every file."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

Files: TypeAlias = dict[str, int]

_UNFINISHED = re.compile(r"^\.|^tmp[-_.]|\.(tmp|temp|part|partial|incomplete)$|-(unfinished|tmp)$", re.IGNORECASE)


class Entry(NamedTuple):
    """One name below a root: a folder with its files (names relative to it), or a single file."""

    step: int
    name: str
    path: str
    files: Files
    folder: bool = True

    def at(self, name: str) -> str:
        """The whole path of one of its files."""
        return f"{self.path if self.folder else self.path.rpartition('/')[0]}/{name}"


def is_local(fs: AbstractFileSystem) -> bool:
    """Whether paths are the operating system's own: a local disk or a mounted, shared one."""
    return isinstance(fs, LocalFileSystem)


def bare(fs: AbstractFileSystem, path: str) -> str:
    """A path as the file system itself says it: no protocol, no slash at its end."""
    return str(fs._strip_protocol(path)).rstrip("/")


def entries(fs: AbstractFileSystem, root: str, name: re.Pattern[str]) -> list[Entry]:
    """Entries of a root whose whole name matches, ordered by the number of the group `step` (0 without one).

    Hidden and unfinished names (`.x`, `x.tmp`, `x.partial`, `tmp-x`, `x-unfinished`) are no checkpoints.
    """
    root = bare(fs, root)
    found = []
    for entry_name, files, folder in _local(root, name) if is_local(fs) else _remote(fs, root, name):
        match = name.fullmatch(entry_name)
        step = int(match["step"] or 0) if match and "step" in name.groupindex else 0
        found.append(Entry(step, entry_name, f"{root}/{entry_name}", files, folder))
    return sorted(found, key=lambda entry: (entry.step, entry.name))


def held(fs: AbstractFileSystem, path: str) -> Entry:
    """What one checkpoint holds: a folder, one file, or the files of all ranks (`{rank}` in its name)."""
    path = bare(fs, path)
    base, _, name = path.rpartition("/")
    if "{rank}" in name:
        return Entry(0, name, path, _rank_files(fs, base, name), folder=False)
    if not is_local(fs):
        fs.invalidate_cache(path)
        below = fs.find(path, detail=True)
        files = {str(p)[len(path) + 1 :]: int(info["size"]) for p, info in below.items()}
        return Entry(0, name, path, {name: files[""]}, folder=False) if "" in files else Entry(0, name, path, files)
    try:
        return Entry(0, name, path, _walk(path))
    except NotADirectoryError:
        return Entry(0, name, path, {name: os.stat(path).st_size}, folder=False)
    except FileNotFoundError:
        return Entry(0, name, path, {})


def _rank_files(fs: AbstractFileSystem, base: str, name: str) -> Files:
    before, _, after = name.partition("{rank}")
    family = re.compile(rf"{re.escape(before)}\d+{re.escape(after)}")
    return {entry.name: entry.files[entry.name] for entry in entries(fs, base, family) if not entry.folder}


def _wanted(entry_name: str, name: re.Pattern[str]) -> bool:
    return name.fullmatch(entry_name) is not None and _UNFINISHED.search(entry_name) is None


def _local(root: str, name: re.Pattern[str]) -> Iterator[tuple[str, Files, bool]]:
    # fsspec's own listing takes a dozen attributes of every file; a scan of a thousand folders wants sizes only.
    try:
        names = [entry for entry in os.scandir(root) if _wanted(entry.name, name)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in names:
        try:
            if entry.is_dir():
                yield entry.name, _walk(entry.path), True
            else:
                yield entry.name, {entry.name: entry.stat().st_size}, False
        except FileNotFoundError:
            continue


def _walk(folder: str, prefix: str = "", into: Files | None = None) -> Files:
    into = {} if into is None else into
    with os.scandir(folder) as below:
        for entry in below:
            try:
                if entry.is_dir(follow_symlinks=False):
                    _walk(entry.path, f"{prefix}{entry.name}/", into)
                else:
                    into[prefix + entry.name] = entry.stat().st_size
            except FileNotFoundError:
                continue
    return into


def _remote(fs: AbstractFileSystem, root: str, name: re.Pattern[str]) -> Iterator[tuple[str, Files, bool]]:
    # One listing of everything: object stores page through it a thousand keys at a time.
    fs.invalidate_cache(root)
    folders: dict[str, Files] = {}
    for path, info in fs.find(root, detail=True).items():
        first, _, rest = str(path)[len(root) + 1 :].partition("/")
        if not _wanted(first, name):
            continue
        if rest:
            folders.setdefault(first, {})[rest] = int(info["size"])
        else:
            yield first, {first: int(info["size"])}, False
    for first, files in folders.items():
        yield first, files, True


def read(fs: AbstractFileSystem, paths: Sequence[str]) -> list[bytes | None]:
    """The bytes of many small files, fetched together where the storage can; None for one that is not there."""
    got = fs.cat_ranges(list(paths), None, None, on_error="return")
    for each in got:
        if isinstance(each, Exception) and not isinstance(each, FileNotFoundError):
            raise each
    return [None if isinstance(each, FileNotFoundError) else bytes(each) for each in got]


def text(fs: AbstractFileSystem, path: str) -> str | None:
    """A pointer's text, stripped; None when there is no such file."""
    (raw,) = read(fs, [path])
    return None if raw is None else raw.decode("utf-8", "replace").strip()


def json_object(raw: bytes | None) -> dict[str, Any] | None:
    """The JSON object of a small file; None when it is missing, cut off or something else."""
    try:
        value = json.loads(raw or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def short_of(files: Files, wanted: Files, exact: bool = True) -> str:
    """The first file that is missing or of the wrong size against what was promised; "" when none is.

    >>> short_of({"a": 3}, {"a": 8}), short_of({"a": 3}, {"b": 1}), short_of({"a": 9}, {"a": 8}, exact=False)
    ('a holds 3 of 8 bytes', 'b is missing', '')
    """
    for name, size in sorted(wanted.items()):
        have = files.get(name)
        if have is None:
            outside = name.startswith("/") or ".." in name.split("/")
            return f"it names {name!r}, outside the checkpoint" if outside else f"{name} is missing"
        if have < size or (exact and have != size):
            return f"{name} holds {have} of {size} bytes"
    return ""
