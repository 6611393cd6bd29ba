"""Telemetry and orders of a process that trains alone, its tensors in the CPU's memory."""

import time
from typing import Any

from orchestrator.training.orders import Desk, Orders
from orchestrator.training.seen import own_record
from orchestrator.training.shield import TELEMETRY, Shield
from orchestrator.training.stream import HOLD_SECONDS, Stream


class Solo:
    """Nothing is exchanged: steps are written soon, and the directives hold at once.

    A step is added to `held`. Before the step `until` and the time `due` (on the monotonic clock), that is all.
    """

    reads = True

    def __init__(self, shield: Shield, stream: Stream, desk: Desk) -> None:
        self._shield, self._stream, self._desk = shield, stream, desk
        self.standing = Orders()
        self.held = stream.held
        self.until, self.due = 0, 0.0
        stream.record = own_record

    def report(self, step: int, fields: dict[str, Any], calm: bool) -> Orders:
        """What is ordered after this step, the newest of those held; the same object where nothing has changed."""
        now = time.monotonic()
        if now >= self.due or not calm:
            self.due = now + HOLD_SECONDS
            self._shield.run(TELEMETRY, self._stream.flush)
            self.held.clear()  # what could not be written is given up
        orders = self._shield.run("directives", self._desk.orders, step, 0, [fields]) or self.standing
        self.until = self._desk.until
        self.standing = orders._replace(due=False) if orders.due else orders
        return orders

    def flush(self) -> None:
        """Write the steps held back."""
        self._stream.flush()
