"""Telemetry and orders of a job of many ranks, or of one on an accelerator: what goes through the exchange."""

import time
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orchestrator.training.gathered import Gathered
from orchestrator.training.guard import UNJUDGED, Done
from orchestrator.training.orders import Desk, Orders
from orchestrator.training.ranks import BAD, HAS_LOSS, HAS_NORM, HAS_SUM, LOSS, NORM, SHOWN, SKIPPED, Link, Row
from orchestrator.training.replicas import EVERY
from orchestrator.training.seen import Seen, number
from orchestrator.training.shield import Shield
from orchestrator.training.stream import Stream

# Parts whose failure on one rank must be shared: updates have to stay the same on all.
SHARED = {"learning rate": 8, "gradient guard": 16}


class Parts(NamedTuple):
    """What a rank needs beside what every process has: the exchange, what is made of it, and what the guard did."""

    link: Link
    gathered: Gathered
    take: Callable[[int], Done]


class Team:
    """Every rank sends a row a step and obeys rank 0's; rank 0 writes, the others only what is exceptional."""

    def __init__(self, shield: Shield, stream: Stream, desk: Desk | None, parts: Parts) -> None:
        self._shield, self._stream, self._desk = shield, stream, desk
        self._link, self._gathered, self._take = parts
        self._own = self.standing = Orders()
        stream.record = self._gathered.record

    def report(self, step: int, loss: Any, shards: Sequence[str], fields: dict[str, Any]) -> Orders:
        """Exchange this step's row, keep what came back for its record, and return what rank 0 orders.

        On an accelerator that is the record of the step before, and the orders it carried. The orders are the same
        object where nothing has changed.
        """
        if self._desk is not None:
            ahead = 1 if self._link.late else 0
            orders = self._shield.run("directives", self._desk.orders, step, ahead, fields.get("tokens") or 0)
            self._own = orders or self._own._replace(due=False)
        done = self._shield.run("telemetry", self._take, step) or ((), UNJUDGED)
        replica = None if step % EVERY else self._shield.run("replica check", self._gathered.replicas.value)
        row = self._shield.run("telemetry", self._row, loss, shards, done, replica) or self._empty()
        if self._shield.asleep:
            row = row._replace(flags=row.flags | self._broken())
        seen = Seen(step, time.time(), shards, fields, done)
        own = (loss, done[1][0], replica)
        arrived = self._shield.run("exchange between ranks", self._link.exchange, seen, row, *own)
        if arrived is not None:
            return self._taken(*arrived)
        self.standing = self.standing._replace(due=False)
        return self.standing

    def flush(self) -> None:
        """Write what was sent and not read yet."""
        arrived = self._link.flush()
        if arrived is not None:
            self._taken(*arrived)
        self._stream.flush()

    def _empty(self) -> Row:
        scale, clip_scale, due, stop = self._own
        return Row(scale=scale, clip_scale=clip_scale, due=due, stop=stop)

    def _row(self, loss: Any, shards: Sequence[str], done: Done, replica: Tensor | None) -> Row:
        known = self._gathered.shards
        for shard_hash, name in known.new(shards):
            if self._desk is None:
                self._stream.send({"type": "shard", "hash": shard_hash, "name": name})
        norm, _, bad, skipped, _ = done[1]
        flags = HAS_LOSS * (loss is not None) | HAS_NORM * (norm is not None) | SKIPPED * skipped
        flags |= HAS_SUM * (replica is not None)
        values = self._here(loss), self._here(norm), bad, len(shards), self._here(replica)
        return Row(flags, *values, known.hashes(shards), *self._own)

    def _here(self, value: Any) -> float:
        if self._link.late and isinstance(value, Tensor):
            return 0.0  # the link fills it in on the device
        return number(value) or 0.0

    def _broken(self) -> int:
        return sum(bit for part, bit in SHARED.items() if part in self._shield.asleep)

    def _taken(self, seen: Seen, rows: Tensor) -> Orders:
        if len(rows) > SHOWN:
            return self._many(seen, rows)
        # Without tensors: for so few numbers each operation costs more than the numbers.
        table = rows.tolist()
        flags, calm = 0, True
        for row in table:
            flags |= int(row[0])
            calm = calm and isfinite(row[LOSS]) and isfinite(row[NORM])
        self._share(flags)
        if self._desk is not None:
            self._shield.run("telemetry", self._keep, calm and not flags & SKIPPED, seen, table)
        elif not calm:
            self._shield.run("telemetry", self._tell_own, seen, table[self._link.rank])
        return self._ordered(table[0])

    def _many(self, seen: Seen, rows: Tensor) -> Orders:
        flags = 0
        for found in torch.unique(rows[:, 0]).tolist():
            flags |= int(found)
        self._share(flags)
        calm = bool(torch.isfinite(rows[:, LOSS : NORM + 1]).all())
        if self._desk is not None:
            self._shield.run("telemetry", self._keep, calm and not flags & SKIPPED, seen, rows)
        elif not calm:
            self._shield.run("telemetry", self._tell_own, seen, rows[self._link.rank].tolist())
        return self._ordered(rows[0].tolist())

    def _share(self, flags: int) -> None:
        for part, bit in SHARED.items():
            if flags & bit:
                self._shield.asleep.add(part)

    def _ordered(self, first: list[float]) -> Orders:
        """What rank 0 orders with its row."""
        scale, clip_scale, due, stop = first[-4:]
        standing = self.standing
        if due or scale != standing.scale or clip_scale != standing.clip_scale or stop != standing.stop:
            orders = Orders(scale, clip_scale, bool(due), int(stop))
            self.standing = orders._replace(due=False) if due else orders
            return orders
        return standing

    def _keep(self, calm: bool, seen: Seen, rows: Tensor | list[list[float]]) -> None:
        if self._stream.hold((seen, rows)) or not calm:
            self._stream.flush()

    def _tell_own(self, seen: Seen, row: list[float]) -> None:
        """A rank that does not write for all tells what is wrong with its own step."""
        if row[BAD] or not (isfinite(row[LOSS]) and isfinite(row[NORM])):
            self._stream.tell(seen.record(row[LOSS], row[NORM]))
