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
from orchestrator.training.ranks import BAD, HAS_LOSS, HAS_NORM, HAS_SUM, LOSS, NORM, SKIPPED, Link, Row, Rows
from orchestrator.training.replicas import EVERY
from orchestrator.training.seen import Seen, number
from orchestrator.training.shield import Shield
from orchestrator.training.stream import Stream

# Parts whose failure on one rank must be shared: updates have to stay the same on all.
SHARED = {"learning rate": 8, "gradient guard": 16}
ORDINARY = HAS_LOSS | HAS_NORM | SKIPPED  # flags that share nothing


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
        replica = None if step % EVERY else self._shield.run("replica check", self._gathered.replicas.value)
        row, done = self._shield.run("telemetry", self._row, step, loss, shards, replica) or self._empty()
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

    def _empty(self) -> tuple[Row, Done]:
        scale, clip_scale, due, stop = self._own
        return Row(scale=scale, clip_scale=clip_scale, due=due, stop=stop), ((), UNJUDGED)

    def _row(self, step: int, loss: Any, shards: Sequence[str], replica: Tensor | None) -> tuple[Row, Done]:
        done = self._take(step)
        known = self._gathered.shards
        for shard_hash, name in known.new(shards):
            if self._desk is None:
                self._stream.send({"type": "shard", "hash": shard_hash, "name": name})
        norm, _, bad, skipped, _ = done[1]
        flags = HAS_LOSS * (loss is not None) | HAS_NORM * (norm is not None) | SKIPPED * skipped
        flags |= HAS_SUM * (replica is not None)
        values = self._here(loss), self._here(norm), bad, len(shards), self._here(replica)
        return Row(flags, *values, known.hashes(shards), *self._own), done

    def _here(self, value: Any) -> float:
        if self._link.late and isinstance(value, Tensor):
            return 0.0  # the link fills it in on the device
        return number(value) or 0.0

    def _broken(self) -> int:
        return sum(bit for part, bit in SHARED.items() if part in self._shield.asleep)

    def _taken(self, seen: Seen, rows: Rows) -> Orders:
        own: Sequence[float]
        first: Sequence[float]
        if isinstance(rows, list):
            flags, calm, own, first = 0, True, rows[self._link.rank], rows[0]
            for row in rows:
                flags |= int(row[0])
                calm = calm and isfinite(row[LOSS]) and isfinite(row[NORM])
        else:
            flags, calm = _of_many(rows)
            own, first = rows[self._link.rank].tolist(), rows[0].tolist()
        if flags > ORDINARY:
            self._share(flags)
        if self._desk is not None:
            self._shield.run("telemetry", self._keep, calm and not flags & SKIPPED, seen, rows)
        elif not calm:
            self._shield.run("telemetry", self._tell_own, seen, own)
        return self._ordered(first)

    def _share(self, flags: int) -> None:
        for part, bit in SHARED.items():
            if flags & bit:
                self._shield.asleep.add(part)

    def _ordered(self, first: Sequence[float]) -> Orders:
        """What rank 0 orders with its row."""
        scale, clip_scale, due, stop = first[-4:]
        standing = self.standing
        if due or scale != standing.scale or clip_scale != standing.clip_scale or stop != standing.stop:
            orders = Orders(scale, clip_scale, bool(due), int(stop))
            self.standing = orders._replace(due=False) if due else orders
            return orders
        return standing

    def _keep(self, calm: bool, seen: Seen, rows: Rows) -> None:
        if self._stream.hold((seen, rows)) or not calm:
            self._stream.flush()

    def _tell_own(self, seen: Seen, row: Sequence[float]) -> None:
        """A rank that does not write for all tells what is wrong with its own step."""
        if row[BAD] or not (isfinite(row[LOSS]) and isfinite(row[NORM])):
            self._stream.tell(seen.record(row[LOSS], row[NORM]))


def _of_many(rows: Tensor) -> tuple[int, bool]:
    """All flags that a rank raised, and whether every loss and norm is finite."""
    flags = 0
    for found in torch.unique(rows[:, 0]).tolist():
        flags |= int(found)
    return flags, bool(torch.isfinite(rows[:, LOSS : NORM + 1]).all())
