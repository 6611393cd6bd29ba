"""One checkpoint layout a file: find, verify, point to; never load a tensor, never run a pickle.

A layout is a module with four functions over an fsspec file system (`fs`) and the folder that holds the
checkpoints (`root`); paths are the file system's own, without protocol:

- `scan(fs, root) -> list[Found]`: every checkpoint in sight, in the order of their steps (by number);
  complete as far as names, sizes and small JSON files tell;
- `verify(fs, path, full=False) -> str`: "" when it is whole, else what is wrong, in words; cheap by
  default (sizes, headers, metadata extents), every byte against the digests when `full`;
- `point_to(fs, root, found) -> list[str]`: makes the layout's own pointers name this one, in one step
  each; where the trainer takes the highest number, later ones are moved into a folder beside them (never on
  object stores); says in words what was done;
- `resume_hint(found) -> tuple[str, ...]`: the arguments its usual trainer takes to resume from exactly this
  one; empty where only the trainer's code can say.

Modules that begin with an underscore are what the layouts share. A storage error other than "not there" is
raised, never taken for a broken checkpoint: callers retry it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Found(NamedTuple):
    """A checkpoint in sight. `why` says why it is not complete; `missing` names what a resume would lack.

    `missing` is drawn from PARTS. `run` and `attempt` are who wrote it, where its marker tells. `reshards`
    is false when only as many ranks as wrote it (`world_size`) can load it.
    """

    step: int
    path: str
    complete: bool
    why: str = ""
    missing: tuple[str, ...] = ()
    attempt: int | None = None
    world_size: int | None = None
    run: str | None = None
    finite: bool | None = None
    reshards: bool = True


PARTS = ("weights", "optimizer", "scheduler", "scaler", "rng", "data position")


class Layout(Protocol):
    """What every module of this family offers."""

    def scan(self, fs: Any, root: str) -> list[Found]: ...
    def verify(self, fs: Any, path: str, full: bool = False) -> str: ...
    def point_to(self, fs: Any, root: str, found: Found) -> list[str]: ...
    def resume_hint(self, found: Found) -> tuple[str, ...]: ...


def check(layout: Layout, fs: Any, found: Sequence[Found], full: bool = False) -> list[Found]:
    """The same ones after verification: no longer complete, and why, where it failed.

    A layout whose metadata tells more than its file names (`missing`) has a `check` of its own, which also
    reads the metadata of all of them in one go.
    """
    own = getattr(layout, "check", None)
    if own is not None:
        return list(own(fs, found, full))
    return [judged(each, layout.verify(fs, each.path, full)) if each.complete else each for each in found]


def judged(found: Found, wrong: str) -> Found:
    """The found one, not complete when something is wrong with it."""
    return found._replace(complete=False, why=wrong) if wrong else found


def refusal(found: Found, world_size: int | None = None) -> str:
    """Why a job of `world_size` ranks cannot resume from this one; "" when it can.

    >>> refusal(Found(500, "ck/500", True, world_size=4, reshards=False), 6)
    'step 500 was written by 4 ranks and cannot be loaded by 6'
    >>> refusal(Found(900, "ck/900", True, missing=("optimizer", "rng")))
    'step 900 holds no optimizer'
    """
    if not found.complete:
        return f"step {found.step} is not complete: {found.why}"
    lacking = [part for part in ("weights", "optimizer") if part in found.missing]
    if lacking:
        return f"step {found.step} holds no {' and no '.join(lacking)}"
    if not found.reshards and None not in (found.world_size, world_size) and found.world_size != world_size:
        return f"step {found.step} was written by {found.world_size} ranks and cannot be loaded by {world_size}"
    return ""
