"""Composer: `epE-baB-rankR.pt`, a file a rank (mostly rank 0 alone), or sharded folders `epE-baB`; the step is B.

`latest-rankR.pt` links to the newest; on object stores a text file `latest-rankR.pt.symlink` holds its path.
"""

import re
from collections.abc import Sequence

from fsspec import AbstractFileSystem

from orchestrator.checkpoints import Found, _files, _folders, judged
from orchestrator.checkpoints._contents import empty_one
from orchestrator.checkpoints._folders import METADATA, Rules
from orchestrator.checkpoints._pointer import link, point
from orchestrator.checkpoints._ranks import missing_rank
from orchestrator.checkpoints._tree import Entry, bare, entries, held, is_local

_NAME = re.compile(r"ep\d+-ba(?P<step>\d+)(?:-rank(?P<rank>\d+)(?P<suffix>\.pt)?)?")
_LATEST = re.compile(r"latest-rank(?P<rank>\d+)(?:\.pt)?(?P<text>\.symlink)?")
_RANK = re.compile(r".*-rank(\d+)(?:\.pt)?")


def _look(fs: AbstractFileSystem, entry: Entry) -> Found:
    why = "" if METADATA in entry.files else f"no {METADATA}: it is being written, or its save was cut off"
    return Found(entry.step, entry.path, not why, why)


# The state dict of a trainer holds optimizers, schedulers and random states under keys of these names.
_RULES = Rules(re.compile(r"ep\d+-ba(?P<step>\d+)"), _look, lambda entry: ("",), ("optimizer", "scheduler", "rng"))


def scan(fs: AbstractFileSystem, root: str) -> list[Found]:
    """Every batch with a checkpoint; the files of several ranks are one, `{rank}` in its path."""
    families: dict[str, list[Entry]] = {}
    found = []
    for entry in entries(fs, root, _NAME):
        if entry.folder:
            found += _folders.looked(fs, [entry], _RULES)
        elif "-rank" in entry.name:
            families.setdefault(re.sub(r"-rank\d+", "-rank{rank}", entry.path), []).append(entry)
    found += [_family(path, members) for path, members in families.items()]
    return sorted(found, key=lambda each: (each.step, each.path))


def _family(path: str, members: list[Entry]) -> Found:
    files = {name: size for entry in members for name, size in entry.files.items()}
    why = empty_one(files) or missing_rank(files, _RANK)
    one = len(members) == 1 and not why
    ranks = None if one else len(members)
    return Found(members[0].step, members[0].path if one else path, not why, why, world_size=ranks, reshards=one)


def check(fs: AbstractFileSystem, found: Sequence[Found], full: bool = False) -> list[Found]:
    """Verify many; a sharded one's `missing` from its metadata."""
    return [_checked(fs, each, full) if each.complete else each for each in found]


def _checked(fs: AbstractFileSystem, found: Found, full: bool) -> Found:
    if _RULES.name.fullmatch(found.path.rpartition("/")[2]):
        return _folders.check(fs, [found], _RULES, full)[0]
    gap = missing_rank(held(fs, found.path).files, _RANK) if "{rank}" in found.path else ""
    return judged(found, gap or _files.verify(fs, found.path, full))


def verify(fs: AbstractFileSystem, path: str, full: bool = False) -> str:
    """What is wrong with one checkpoint; "" when nothing is."""
    return _checked(fs, Found(0, bare(fs, path), True), full).why


def point_to(fs: AbstractFileSystem, root: str, found: Found) -> list[str]:
    """Every `latest-rankR` there is, to this one's file of the same rank."""
    root, name = bare(fs, root), found.path.rpartition("/")[2]
    done = []
    for entry in entries(fs, root, _LATEST):
        match = _LATEST.fullmatch(entry.name)
        target = name.replace("{rank}", match["rank"]) if match else ""
        if match and match["text"]:
            done.append(point(fs, entry.path, f"{root}/{target}"))
        elif is_local(fs):
            done.append(link(root, entry.name, target))
        else:
            done.append(f"{entry.path} stays: on this storage nothing is moved")
    return done


def resume_hint(found: Found) -> tuple[str, ...]:
    """llm-foundry's override; with `autoresume` Composer goes by `latest-rankR` whatever it is told."""
    return (f"load_path={found.path}",)
