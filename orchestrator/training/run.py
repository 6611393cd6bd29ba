"""The surface a trainer sees. By itself it is the no-op that stands in outside a supervised run."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

Batch = TypeVar("Batch")


class Run:
    """A run without a supervisor: the loop's own steps are counted, nothing else is touched.

    `checkpoint_due` and `stop_requested` are to be read after `step`; `quarantine` holds the names of the shards
    that the data set must leave out.
    """

    supervised: bool = False
    quarantine: frozenset[str] = frozenset()
    checkpoint_due: bool = False
    stop_requested: bool = False

    def restore(self, state: dict[str, Any]) -> int:
        """Load the checkpoint this attempt resumes from into `state`, in place.

        Values with `state_dict` and `load_state_dict` are loaded through them, other values are replaced.
        Returns the checkpoint's step, 0 when the attempt starts fresh. Raises what loading raises: a resume
        that silently became a fresh start would be worse than a crash.
        """
        return 0

    def steps(self, loader: Iterable[Batch], start: int = 0, total: int | None = None) -> Iterator[tuple[int, Batch]]:
        """Number the batches start+1 ... total; a loader that ends earlier is iterated anew.

        Without `total` the loader's own end is the run's. The loader itself decides with which batch it begins.
        """
        step = start
        while total is None or step < total:
            began = step
            for batch in loader:
                step += 1
                yield step, batch
                if step == total:
                    return
            if total is None or step == began:
                return

    def begin(self, step: int, total: int | None = None) -> None:
        """A loop of one's own begins after `step`, which the checkpoint it resumed from says; it ends at `total`."""

    def finish(self) -> None:
        """A loop of one's own came to its end, at `total` or before."""

    def step(self, step: int, *, loss: Any = None, shards: Sequence[str] = (), **fields: Any) -> None:
        """Report the update to `step`, and take in what the supervisor wants.

        `loss` is a number or a tensor of one element; other fields of the wire's step message pass as keywords.
        """

    def eval(self, step: int, **values: Any) -> None:
        """Report evaluations at `step` by name, such as `eval(1000, val=2.2)`."""

    def save(self, step: int, state: dict[str, Any], *, wait: bool = True) -> None:
        """Write `state` as the checkpoint of `step`; every rank calls it. A disk error is told, not raised.

        Without `wait` the state is copied at once and written while training goes on: it counts as saved once it
        is durable. One at a time: a save that finds the one before unfinished waits for that.
        """

    def folder(self) -> str | None:
        """Where the supervisor expects the checkpoints; None outside a supervised run."""
        return None

    def saved(self, step: int, path: str | Path) -> None:
        """Report a checkpoint that the trainer wrote itself, complete."""
