"""Where a checkpoint goes: a folder beside its final name and one rename, or a URL and the marker last of all.

An object store knows no rename, so there a checkpoint is written in its place; it is none before its marker.
fsspec is imported only when a URL is met.
"""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Protocol

from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter

from orchestrator import wire


class Target(Protocol):
    """One checkpoint's place. `clear` before any rank writes, `complete` after all have; rank 0 calls both."""

    def clear(self) -> None: ...
    def writer(self) -> Any: ...
    def complete(self, marker: dict[str, Any]) -> dict[str, Any]: ...
    def marker(self) -> dict[str, Any] | None: ...
    def reader(self) -> Any: ...


def target(path: str | Path) -> Target:
    """The place that a path or URL names."""
    text = str(path)
    return Remote(text) if "://" in text else Folder(Path(text))


def below(root: str, name: str) -> str:
    """A name below a root, which may be a URL.

    >>> below("s3://bucket/run/", "step-3"), below("/data/run", "step-3")
    ('s3://bucket/run/step-3', '/data/run/step-3')
    """
    return f"{root.rstrip('/')}/{name}"


class Folder:
    """On a disk or a mounted file system."""

    def __init__(self, path: Path) -> None:
        self._path, self._aside = path, path.with_name(path.name + ".partial")

    def clear(self) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)

    def writer(self) -> Any:
        return FileSystemWriter(self._aside)

    def complete(self, marker: dict[str, Any]) -> dict[str, Any]:
        found = [file for file in sorted(self._aside.rglob("*")) if file.is_file()]
        files = {str(file.relative_to(self._aside)): file.stat().st_size for file in found}
        marker = {**marker, "time": time.time(), "files": files}
        wire.write_json(self._aside / wire.COMPLETE, marker)
        self._put()
        return marker

    def _put(self) -> None:
        replaced = self._path.with_name(self._path.name + ".replaced")
        shutil.rmtree(replaced, ignore_errors=True)
        if self._path.exists():
            os.rename(self._path, replaced)
        os.rename(self._aside, self._path)
        shutil.rmtree(replaced, ignore_errors=True)

    def marker(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = wire.read_json(self._path / wire.COMPLETE)
        return found

    def reader(self) -> Any:
        return FileSystemReader(self._path)


class Remote:
    """Wherever fsspec reaches."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self._url = url
        self._fs, path = url_to_fs(url)
        self._path = str(path).rstrip("/")

    def clear(self) -> None:
        self._fs.invalidate_cache()
        if self._fs.exists(f"{self._path}/{wire.COMPLETE}"):
            self._fs.rm_file(f"{self._path}/{wire.COMPLETE}")
        if self._fs.exists(self._path):
            self._fs.rm(self._path, recursive=True)

    def writer(self) -> Any:
        from torch.distributed.checkpoint._fsspec_filesystem import FsspecWriter

        return FsspecWriter(self._url)

    def complete(self, marker: dict[str, Any]) -> dict[str, Any]:
        self._fs.invalidate_cache()
        below = self._fs.find(self._path, detail=True)
        files = {str(path)[len(self._path) + 1 :]: int(info["size"]) for path, info in sorted(below.items())}
        marker = {**marker, "time": time.time(), "files": files}
        self._fs.pipe_file(f"{self._path}/{wire.COMPLETE}", wire.encode(marker).encode())
        return marker

    def marker(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._fs.cat_file(f"{self._path}/{wire.COMPLETE}"))
        except (FileNotFoundError, ValueError):
            return None
        return found

    def reader(self) -> Any:
        from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader

        return FsspecReader(self._url)
