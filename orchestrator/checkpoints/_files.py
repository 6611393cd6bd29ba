"""What layouts share whose checkpoint is a file of torch.save: its step and its parts, from the dict inside."""

import re
from collections.abc import Iterable, Mapping, Sequence

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, judged
from orchestrator.checkpoints._contents import top_pickle, wrong_inside
from orchestrator.checkpoints._pickled import Top, tops
from orchestrator.checkpoints._tree import Entry, held


def inside(fs: AbstractFileSystem, paths: Sequence[str]) -> list[Top | str]:
    """The top of each file's dict; a string says why one has none. One child process for all."""
    return tops([top_pickle(fs, path) for path in paths]) if paths else []


def step_inside(top: Top | str, keys: Iterable[str]) -> int | None:
    """The first of these keys that holds a whole number."""
    return None if isinstance(top, str) else next((top.numbers[key] for key in keys if key in top.numbers), None)


def stepped(
    fs: AbstractFileSystem, seen: Sequence[Entry], named: Sequence[int | None], keys: Sequence[str]
) -> list[Found]:
    """The files in the order of their steps, which the name tells or else the dict inside."""
    asked = [entry.path for entry, step in zip(seen, named, strict=True) if step is None]
    told = dict(zip(asked, inside(fs, asked), strict=True))
    found = []
    for entry, step in zip(seen, named, strict=True):
        at = step_inside(told[entry.path], keys) if step is None else step
        why = "" if at is not None else f"neither its name nor what is inside tells its step ({', '.join(keys)})"
        if not any(entry.files.values()):
            why = "it is empty"
        found.append(Found(at or 0, entry.path, not why, why))
    return sorted(found, key=lambda each: (each.step, each.path))


def check(
    fs: AbstractFileSystem, found: Sequence[Found], parts: Mapping[str, re.Pattern[str]], full: bool
) -> list[Found]:
    """Verify many; `missing` are the parts that no key of the dict inside speaks of."""
    checked = [judged(each, verify(fs, each.path, full)) if each.complete else each for each in found]
    asked = [at for at, each in enumerate(checked) if each.complete]
    files = [held(fs, checked[at].path) for at in asked]
    for at, top in zip(asked, inside(fs, [each.at(min(each.files)) for each in files]), strict=True):
        if not isinstance(top, str) and top.keys:
            missing = tuple(part for part, word in parts.items() if not any(word.search(key) for key in top.keys))
            checked[at] = checked[at]._replace(missing=missing)
    return checked


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with the files of one checkpoint; "" when nothing is."""
    entry = held(fs, path)
    return wrong_inside(fs, entry, full) if entry.files else "it is gone"
