"""What all folder layouts share: list, look, check against marker, metadata, headers and digests.

A layout states its rules; the walk is the same for all of them.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, judged
from orchestrator.checkpoints._contents import wrong_inside
from orchestrator.checkpoints._marker import broken, read_markers, signed
from orchestrator.checkpoints._pickled import metadata
from orchestrator.checkpoints._tree import Entry, entries, held, read, short_of

METADATA = ".metadata"
_BATCH = 64

Look: TypeAlias = Callable[[AbstractFileSystem, Entry], Found]


def _no_folders(entry: Entry) -> tuple[str, ...]:
    return ()


def _nothing_more(fs: AbstractFileSystem, entry: Entry) -> str:
    return ""


class Rules(NamedTuple):
    """One folder layout.

    `name` is the pattern of its folders with the group `step`; `look` judges by names, sizes and small JSON
    files; `inner` names the folders below one checkpoint that are DCP ones ("" is itself), whose keys must
    speak of the parts `wanted`; `deep` is a last look inside, "" or what is wrong.
    """

    name: re.Pattern[str]
    look: Look
    inner: Callable[[Entry], tuple[str, ...]] = _no_folders
    wanted: tuple[str, ...] = ()
    deep: Callable[[AbstractFileSystem, Entry], str] = _nothing_more


def scan(fs: AbstractFileSystem, root: str, rules: Rules) -> list[Found]:
    """Every folder of the layout, judged by what a listing tells."""
    return looked(fs, [entry for entry in entries(fs, root, rules.name) if entry.folder], rules)


def looked(fs: AbstractFileSystem, seen: Sequence[Entry], rules: Rules) -> list[Found]:
    """The layout's look and the marker's word on each."""
    markers = read_markers(fs, seen)
    found = []
    for entry in seen:
        marker = markers.get(entry.path)
        each = rules.look(fs, entry) if entry.files else Found(entry.step, entry.path, False, "it is empty")
        if each.complete and marker:
            each = judged(each, broken(marker, entry))
        found.append(signed(each, marker))
    return found


def verify(fs: AbstractFileSystem, path: str, rules: Rules, full: bool = False) -> str:
    """What is wrong with one checkpoint; "" when nothing is."""
    match = rules.name.fullmatch(path.rstrip("/").rsplit("/", 1)[-1])
    step = int(match["step"]) if match else 0
    return check(fs, [Found(step, path, True)], rules, full)[0].why


def check(fs: AbstractFileSystem, found: Sequence[Found], rules: Rules, full: bool = False) -> list[Found]:
    """Verify those that are complete so far; the metadata of a batch are read in one child process."""
    checked = list(found)
    asked = [at for at, each in enumerate(found) if each.complete]
    for start in range(0, len(asked), _BATCH):
        batch = asked[start : start + _BATCH]
        for at, result in zip(batch, _check(fs, [found[at] for at in batch], rules, full), strict=True):
            checked[at] = result
    return checked


def _check(fs: AbstractFileSystem, found: Sequence[Found], rules: Rules, full: bool) -> list[Found]:
    seen = [held(fs, each.path)._replace(step=each.step) for each in found]
    results = [
        each._replace(path=old.path) if entry.files else judged(old, "it is gone")
        for old, entry, each in zip(found, seen, looked(fs, seen, rules), strict=True)
    ]
    _against_metadata(fs, seen, results, rules)
    for at, entry in enumerate(seen):
        if results[at].complete:
            results[at] = judged(results[at], wrong_inside(fs, entry, full) or rules.deep(fs, entry))
    return results


def _against_metadata(fs: AbstractFileSystem, seen: Sequence[Entry], results: list[Found], rules: Rules) -> None:
    """Judge in place by the DCP metadata inside: extents against file sizes, parts against the wanted ones."""
    asked = [(at, folder) for at, each in enumerate(results) if each.complete for folder in rules.inner(seen[at])]
    blobs = read(fs, [seen[at].at(folder + METADATA) for at, folder in asked]) if asked else []
    parts: dict[int, set[str]] = {}
    for (at, folder), told in zip(asked, metadata([raw or b"" for raw in blobs]), strict=True):
        if isinstance(told, str):
            results[at] = judged(results[at], f"{folder}{METADATA}: {told}")
            continue
        ends = {folder + name: end for name, end in told.ends.items()}
        results[at] = judged(results[at], short_of(seen[at].files, ends, exact=False))
        parts.setdefault(at, set()).update(told.parts)
    for at, have in parts.items():
        missing = tuple(part for part in rules.wanted if part not in have and part not in results[at].missing)
        results[at] = results[at]._replace(missing=results[at].missing + missing)
