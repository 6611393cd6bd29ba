"""One checkpoint layout a file: find, verify, point to; never load a tensor, never run a pickle.

A layout is a module with three functions over an fsspec file system (`fs`) and the folder that holds the
checkpoints (`root`); paths are the file system's own, without protocol:

- `scan(fs, root) -> list[Found]`: every checkpoint in sight, in the order of their steps (by number);
- `verify(fs, path, full=False) -> str`: "" when it is whole, else what is wrong, in words; cheap by
  default (sizes, headers, metadata extents), every byte against the digests when `full`;
- `point_to(fs, root, found) -> None`: makes the layout's own pointers name this one, in one step each.
"""

from typing import NamedTuple


class Found(NamedTuple):
    """A checkpoint in sight. `why` says why it is not complete; `missing` names what a resume would lack."""

    step: int
    path: str
    complete: bool
    why: str = ""
    missing: tuple[str, ...] = ()
    attempt: int | None = None
    world_size: int | None = None
