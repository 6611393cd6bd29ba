"""What lies elsewhere (`s3://...`, `gs://...`, `https://...`: wherever fsspec reaches), brought here to be read."""

from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.errors import ConfigError
from orchestrator.store.patience import patiently


def elsewhere(name: str) -> bool:
    """Whether a name is a URL."""
    return "://" in name


def fetched(url: str, wanted: tuple[str, ...], into: Path) -> Path:
    """The path of a file or folder: itself where the URL is of this host, else a copy below `into`.

    Of a folder those files are copied that match the first of the patterns of `wanted` that any matches.
    ConfigError says what is wrong.
    """
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    try:
        fs, path = fsspec.url_to_fs(url)
        if isinstance(fs, LocalFileSystem):
            return Path(path)
        return patiently(lambda: _copied(fs, str(path).rstrip("/"), wanted, into))
    except (OSError, ValueError, ImportError) as error:  # not there, no such protocol, its package is missing
        raise ConfigError(f"{url}: cannot be fetched: {error}") from error


def _copied(fs: Any, path: str, wanted: tuple[str, ...], into: Path) -> Path:
    if fs.isfile(path):
        copy = into / (PurePosixPath(path).name or "file")
        fs.get_file(path, str(copy))
        return copy
    found = [PurePosixPath(name).relative_to(PurePosixPath(path)) for name in fs.find(path)]
    inside = [name for name in found if ".." not in name.parts]  # a key of an object store may be named like that
    for name in next((hits for p in wanted if (hits := [n for n in inside if fnmatch(str(n), p)])), []):
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        fs.get_file(f"{path}/{name}", str(into / name))
    if not found:
        raise FileNotFoundError("there is nothing of that name")
    return into
