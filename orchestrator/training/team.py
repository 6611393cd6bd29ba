"""Telemetry and orders of a job of many ranks, or of one on an accelerator: what goes through the exchange."""

import time
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orchestrator.training.gathered import Gathered
from orchestrator.training.guard import UNJUDGED, Done
from orchestrator.training.link import DeviceLink, HostLink
from orchestrator.training.orders import Desk, Orders
from orchestrator.training.ranks import BAD, HAS_LOSS, HAS_NORM, HAS_SUM, LOSS, NORM, SKIPPED, Row, Rows
from orchestrator.training.replicas import EVERY
from orchestrator.training.seen import Seen, number
from orchestrator.training.shield import Shield
from orchestrator.training.stream import HOLD_SECONDS, Stream

# Parts whose failure on one rank must be shared: updates have to stay the same on all.
SHARED = {"learning rate": 8, "gradient guard": 16}
EXCHANGE = "exchange between ranks"
UNDONE: Done = ((), UNJUDGED)
AHEAD = 1  # steps until orders have reached all ranks
ORDINARY = HAS_LOSS | HAS_NORM | SKIPPED  # flags that share nothing


class Parts(NamedTuple):
    """What a rank needs beside what every process has: the exchange, what is made of it, and what the guard did."""

    link: HostLink | DeviceLink
    gathered: Gathered
    take: Callable[[int], Done]


class Team:
    """Every rank sends rows of its steps and obeys rank 0's; rank 0 writes, the others only what is exceptional."""

    def __init__(self, shield: Shield, stream: Stream, desk: Desk | None, parts: Parts) -> None:
        self._shield, self._stream, self._desk = shield, stream, desk
        self._link, self._gathered, self._take = parts
        self._own = self.standing = Orders()
        self._block: list[Seen] = []
        self._until, self._began, self._tokens = 0, time.monotonic(), 0.0
        stream.record = self._gathered.record

    def report(self, step: int, loss: Any, shards: Sequence[str], fields: dict[str, Any]) -> Orders:
        """Keep this step's row to be sent; note what was sent before, and return what rank 0 ordered with it.

        The orders are the same object where nothing has changed.
        """
        arrived = self._shield.run(EXCHANGE, self._link.take)
        orders = self._taken(*arrived) if arrived else self.standing
        replica = None if step % EVERY else self._shield.run("replica check", self._gathered.replicas.value)
        row, done = self._shield.run("telemetry", self._row, step, loss, shards, replica) or (Row(), UNDONE)
        if self._shield.asleep:
            row = row._replace(flags=row.flags | self._broken())
        self._block.append(Seen(step, time.time(), shards, fields, done))
        self._tokens += fields.get("tokens") or 0
        over = step >= self._until or self._link.count + 1 >= self._link.most
        if over and self._desk is not None:
            row = self._signed(row, step, self._desk)
        self._shield.run(EXCHANGE, self._link.add, row, loss, done[1][0], replica)
        if over:
            block, self._block = self._block, []
            self._shield.run(EXCHANGE, self._link.send, block)
        return orders

    def flush(self) -> None:
        """Write what was sent and not read yet, and of what will not be sent any more this rank's own part."""
        arrived = self._shield.run(EXCHANGE, self._link.take)
        if arrived:
            self._taken(*arrived)
        for seen, own in zip(self._block, self._link.left(), strict=False):
            self._note(seen, [own], own)
        self._block = []
        self._stream.flush()

    def _signed(self, row: Row, step: int, desk: Desk) -> Row:
        """The row with what all ranks are to do from the step after this one on, until the next block is over."""
        orders = self._shield.run("directives", desk.orders, step, AHEAD, self._tokens)
        self._own = orders or self._own._replace(due=False)
        now, count = time.monotonic(), len(self._block)
        pace, self._began, self._tokens = (now - self._began) / count, now, 0.0
        until = step + min(max(int(HOLD_SECONDS / max(pace, 1e-9)), 1), self._link.most)
        if desk.until > step + AHEAD:
            until = min(until, desk.until - AHEAD)
        scale, clip_scale, due, stop = self._own
        return row._replace(scale=scale, clip_scale=clip_scale, due=due, stop=stop, until=step + 1 if stop else until)

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
        return Row(flags, *values, known.hashes(shards)), done

    def _here(self, value: Any) -> float:
        if self._link.reads or not isinstance(value, Tensor):
            return number(value) or 0.0
        return 0.0  # the link fills it in on the device

    def _broken(self) -> int:
        return sum(bit for part, bit in SHARED.items() if part in self._shield.asleep)

    def _taken(self, block: list[Seen], steps: list[Rows]) -> Orders:
        first: Sequence[float] = ()
        for seen, rows in zip(block, steps, strict=True):
            first = rows[0] if isinstance(rows, list) else rows[0].tolist()
            self._note(seen, rows, first)
        return self._ordered(first)

    def _note(self, seen: Seen, rows: Rows, first: Sequence[float]) -> None:
        own: Sequence[float]
        if isinstance(rows, list):
            flags, calm, own = 0, True, rows[self._link.rank] if len(rows) > 1 else first
            for row in rows:
                flags |= int(row[0])
                calm = calm and isfinite(row[LOSS]) and isfinite(row[NORM])
        else:
            flags, calm = _of_many(rows)
            own = rows[self._link.rank].tolist()
        if flags > ORDINARY:
            self._share(flags)
        if self._desk is not None:
            self._shield.run("telemetry", self._keep, calm and not flags & SKIPPED, seen, rows)
        elif not calm:
            self._shield.run("telemetry", self._tell_own, seen, own)

    def _share(self, flags: int) -> None:
        for part, bit in SHARED.items():
            if flags & bit:
                self._shield.asleep.add(part)

    def _ordered(self, first: Sequence[float]) -> Orders:
        """What rank 0 orders with its row."""
        scale, clip_scale, due, stop, until = first[-5:]
        self._until = int(until)
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
