"""Telemetry and orders of a process that trains alone, its tensors in the CPU's memory."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from orchestrator.training.guard import Done
from orchestrator.training.orders import Desk, Orders
from orchestrator.training.shield import Shield
from orchestrator.training.stream import Stream


class Solo:
    """Nothing is exchanged: a step is noted to be written soon, and the directives hold at once."""

    def __init__(self, shield: Shield, stream: Stream, desk: Desk, take: Callable[[int], Done]) -> None:
        self._shield, self._stream, self._desk, self._take = shield, stream, desk, take
        self.standing = Orders()

    def report(self, step: int, loss: Any, shards: Sequence[str], fields: dict[str, Any]) -> Orders:
        """Note the step and return what is ordered: the same object where nothing has changed."""
        if self._shield.run("telemetry", self._note, step, loss, shards, fields):
            return self.standing
        self._shield.run("telemetry", self._stream.flush)
        orders = self._shield.run("directives", self._desk.orders, step, 0, fields.get("tokens") or 0) or self.standing
        self.standing = orders._replace(due=False) if orders.due else orders
        return orders

    def _note(self, step: int, loss: Any, shards: Sequence[str], fields: dict[str, Any]) -> bool:
        """Keep a step to be written with others; whether nothing else is to be done at it."""
        lrs, (norm, clip, bad, skipped, names) = self._take(step)
        value = loss.item() if isinstance(loss, Tensor) else loss
        if names:
            fields = {**fields, "nonfinite_names": list(names)}
        # A plain tuple, the fields of a Record in their order: it is made in every step.
        due = self._stream.hold((step, time.time(), value, norm, lrs, clip, bad, skipped, tuple(shards), fields, None))
        # x - x is 0 for finite x only.
        return not (due or step >= self._desk.until or skipped or (value is not None and value - value != 0.0))

    def flush(self) -> None:
        """Write the steps held back."""
        self._stream.flush()
