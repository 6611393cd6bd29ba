"""What one process saw of one step, and the record that it makes of it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from orchestrator.training.guard import Done
from orchestrator.training.stream import Record


class Seen(NamedTuple):
    """A step as the trainer reported it, kept until there is time to write; `time` in seconds since the epoch."""

    step: int
    time: float
    shards: Sequence[str]
    fields: dict[str, Any]
    done: Done

    def record(self, loss: float | None, norm: float | None) -> Record:
        """The step's record, with the loss and the gradient norm to be told."""
        lrs, (_, clip, nonfinite, skipped, names) = self.done
        fields = {**self.fields, "nonfinite_names": list(names)} if names else self.fields
        return Record(self.step, self.time, loss, norm, lrs, clip, nonfinite, skipped, self.shards, fields)


def number(value: Any) -> float | None:
    """A number or a tensor of one element as a float."""
    if value is None:
        return None
    return value.item() if isinstance(value, Tensor) else float(value)
