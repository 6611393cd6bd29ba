"""The marker that the trainer's hook writes last: who wrote the checkpoint, and how long each file must be."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fsspec import AbstractFileSystem

from orchestrator import wire
from orchestrator.checkpoints import Found
from orchestrator.checkpoints._tree import Entry, Files, json_object, read, short_of


class Marker(NamedTuple):
    """What the marker says; `wrong` is set, and the rest empty, when it cannot be read."""

    step: int | None = None
    attempt: int | None = None
    world_size: int | None = None
    run: str | None = None
    finite: bool | None = None
    files: Files = {}  # noqa: RUF012
    wrong: str = ""


def read_markers(fs: AbstractFileSystem, found: Sequence[Entry]) -> dict[str, Marker]:
    """The markers of those that have one, by path."""
    marked = [entry.path for entry in found if wire.COMPLETE in entry.files]
    raw = read(fs, [f"{path}/{wire.COMPLETE}" for path in marked]) if marked else []
    return {path: parse(each) for path, each in zip(marked, raw, strict=True)}


def parse(raw: bytes | None) -> Marker:
    """One marker's text.

    >>> parse(b'{"step": 3, "attempt": 1, "files": {"a": 9}}')[:2], parse(b'{"step": ').wrong
    ((3, 1), 'orchestrate.json is not whole')
    """
    value = json_object(raw)
    if value is None:
        return Marker(wrong=f"{wire.COMPLETE} is not whole")
    files = value.get("files")
    sizes = {str(k): v for k, v in files.items() if isinstance(v, int)} if isinstance(files, dict) else {}
    run, finite = value.get("run"), value.get("finite")
    return Marker(
        _whole(value.get("step")),
        _whole(value.get("attempt")),
        _whole(value.get("world_size")),
        run if isinstance(run, str) else None,
        finite if isinstance(finite, bool) else None,
        sizes,
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def broken(marker: Marker, entry: Entry) -> str:
    """What the marker says against its folder; "" when they agree."""
    if marker.wrong:
        return marker.wrong
    if marker.step is not None and marker.step != entry.step:
        return f"{wire.COMPLETE} is of step {marker.step}"
    return short_of(entry.files, marker.files)


def signed(found: Found, marker: Marker | None) -> Found:
    """The found one with what its marker tells of its writer."""
    if marker is None:
        return found
    world_size = found.world_size if marker.world_size is None else marker.world_size
    return found._replace(attempt=marker.attempt, run=marker.run, finite=marker.finite, world_size=world_size)
