"""What may be deleted, as a pure question; and deleting it so that no half of it ever looks complete.

Incomplete checkpoints are neither counted nor offered: one of them may be in the middle of its save.
"""

import os
import re
from collections.abc import Collection, Iterable, Sequence

from fsspec import AbstractFileSystem

from orchestrator import wire
from orchestrator.checkpoints import Found
from orchestrator.checkpoints._digest import digests_path
from orchestrator.checkpoints._tree import held, is_local

# Whatever a layout's completeness hangs on; gone first.
_FIRST = re.compile(
    rf"{re.escape(wire.COMPLETE)}|(.*/)?\.metadata(\.json)?|trainer_state\.json|metadata\.json|model_config\.json"
    r"|checkpoint_metadata\.json|.*\.index\.json|mp_rank_\d+_model_states\.pt"
)


def own(found: Iterable[Found], run: str, saved: Collection[str]) -> list[Found]:
    """Those of this run: its marker names the run or, without such a marker, the run itself told of the path (`saved`).

    What an older run left under a higher number is neither resumed from nor counted. Times are not asked:
    copies and clocks make them lie.
    """
    return [each for each in found if (each.run == run if each.run is not None else each.path in saved)]


def removable(
    found: Sequence[Found],
    keep_last: int,
    keep_healthy: int,
    every: int | None,
    healthy: Collection[str],
    needed: Collection[str],
) -> list[Found]:
    """The complete ones that no rule keeps, oldest first. Pure.

    Kept are the last `keep_last`, the last `keep_healthy` of the paths in `healthy` (one at least), the first in
    every stretch of `every` steps after the first stretch, those an open incident needs (paths), and always
    the newest complete one.
    """
    complete = sorted((each for each in found if each.complete), key=lambda each: (each.step, each.path))
    sound = [each for each in complete if each.path in healthy]
    kept = {each.path for each in (*complete[-max(keep_last, 1) :], *sound[-max(keep_healthy, 1) :])}
    kept |= _milestones(complete, every) | set(needed)
    return [each for each in complete if each.path not in kept]


def _milestones(complete: Sequence[Found], every: int | None) -> set[str]:
    first: dict[int, str] = {}
    for each in complete if every else ():
        first.setdefault(each.step // (every or 1), each.path)
    first.pop(0, None)
    return set(first.values())


def remove(fs: AbstractFileSystem, found: Found) -> None:
    """Delete one checkpoint: first what makes it complete, then the rest. A link is deleted, not what it leads to."""
    if is_local(fs) and os.path.islink(found.path):
        os.unlink(found.path)
        return
    entry = held(fs, found.path)
    names = sorted(entry.files, key=lambda name: (not _FIRST.fullmatch(name), name.count("/"), name))
    for name in names:
        _gone(fs, entry.at(name))
    if not entry.folder:
        _gone(fs, digests_path(entry))
    elif fs.exists(found.path):
        fs.rm(found.path, recursive=True)


def _gone(fs: AbstractFileSystem, path: str) -> None:
    try:
        fs.rm_file(path)
    except FileNotFoundError:
        return
