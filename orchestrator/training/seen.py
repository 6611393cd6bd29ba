"""What one process saw of one step, and the record that it makes of it."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from torch import Tensor

from orchestrator.training.guard import Done
from orchestrator.training.stream import Record

# A plain tuple, for one is made in every step: the step; its time in seconds since the epoch; the loss, a tensor only
# where reading it would have meant waiting; the shards; the trainer's other fields; what was done to the update.
Seen: TypeAlias = tuple[int, float, Any, Sequence[str], dict[str, Any], Done]


def record(seen: Seen, loss: float | None, norm: float | None) -> Record:
    """The step's record, with the loss and the gradient norm to be told."""
    step, when, _, shards, fields, (lrs, (_, clip, nonfinite, skipped, names)) = seen
    if names:
        fields = {**fields, "nonfinite_names": list(names)}
    return Record(step, when, loss, norm, lrs, clip, nonfinite, skipped, shards, fields)


def own_record(seen: Seen) -> Record:
    """The record of a process that trains alone."""
    return record(seen, number(seen[2]), number(seen[5][1][0]))


def number(value: Any) -> float | None:
    """A number or a tensor of one element as a float."""
    if value is None:
        return None
    return value.item() if isinstance(value, Tensor) else float(value)
