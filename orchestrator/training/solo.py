"""Telemetry and orders of a process that trains alone, its tensors in the CPU's memory."""

import time
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from orchestrator.training.guard import Report
from orchestrator.training.orders import Desk, Orders
from orchestrator.training.shield import Shield
from orchestrator.training.stream import Record, Stream


class Solo:
    """Nothing is exchanged: a step is written at once and the directives hold at once."""

    def __init__(self, shield: Shield, stream: Stream, desk: Desk) -> None:
        self._shield, self._stream, self._desk = shield, stream, desk
        self.obeyed = Orders()

    def report(self, step: int, loss: Any, shards: Sequence[str], fields: dict[str, Any], done: Report) -> Orders:
        """Write the step's record and return what is ordered."""
        self._shield.run("telemetry", self._write, step, loss, shards, fields, done)
        orders = self._shield.run("directives", self._desk.orders, step, 0, fields.get("tokens") or 0)
        self.obeyed = orders or self.obeyed._replace(due=False)
        return self.obeyed

    def _write(self, step: int, loss: Any, shards: Sequence[str], fields: dict[str, Any], done: Report) -> None:
        value = number(loss)
        norm = number(done.grad_norm)
        record = Record(
            step,
            time.time(),
            value,
            norm,
            done.lrs,
            done.clip,
            done.nonfinite,
            done.skipped,
            shards,
            named(fields, done),
        )
        self._stream.record(record)

    def flush(self) -> None:
        """Write the steps held back."""
        self._stream.flush()


def named(fields: dict[str, Any], done: Report) -> dict[str, Any]:
    """The step's own fields, and the first parameters whose gradient is not finite."""
    return {**fields, "nonfinite_names": list(done.names)} if done.names else fields


def number(value: Any) -> float | None:
    """A number or a tensor of one element as a float."""
    if value is None:
        return None
    return value.item() if isinstance(value, Tensor) else float(value)
