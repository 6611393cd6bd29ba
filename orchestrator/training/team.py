"""Telemetry and orders of a job of many ranks, or of one on an accelerator: what goes through the exchange."""

import time
from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orchestrator.training.gathered import Gathered
from orchestrator.training.guard import GRADIENTS, RATE
from orchestrator.training.link import DeviceLink, HostLink
from orchestrator.training.orders import Desk, Orders
from orchestrator.training.ranks import BAD, HAS_LOSS, HAS_NORM, HAS_SUM, LOSS, NORM, SKIPPED, Row, Rows
from orchestrator.training.replicas import EVERY
from orchestrator.training.seen import Seen, record
from orchestrator.training.shield import TELEMETRY, Shield
from orchestrator.training.stream import HOLD_SECONDS, Stream

# Parts whose failure on one rank must be shared: updates have to stay the same on all.
SHARED = {RATE: 8, GRADIENTS: 16}
EXCHANGE = "exchange between ranks"
AHEAD = 1  # steps until orders have reached all ranks
ORDINARY = HAS_LOSS | HAS_NORM | SKIPPED  # flags that share nothing


class Parts(NamedTuple):
    """What a rank needs beside what every process has: the exchange, and what is made of it."""

    link: HostLink | DeviceLink
    gathered: Gathered


class Team:
    """Every rank sends rows of its steps and obeys rank 0's; rank 0 writes, the others only what is exceptional.

    A step is added to `held`; `report` has more to do from the step `until` on. That of the others is put off.
    """

    due = float("inf")  # blocks end by steps, on all ranks alike

    def __init__(self, shield: Shield, stream: Stream, desk: Desk | None, parts: Parts) -> None:
        self._shield, self._stream, self._desk = shield, stream, desk
        self._link, self._gathered = parts
        self.reads = self._link.reads
        self._own = self.standing = Orders()
        self.held: list[Seen] = []
        self.until = 0
        self._end, self._sent, self._began, self._due = 0, False, time.monotonic(), 0.0
        self._replica: tuple[int, Tensor | None] = 0, None
        stream.record = self._gathered.record

    def report(self, step: int, fields: dict[str, Any], calm: bool) -> Orders:
        """Note what was sent before, send the block that is over, and return what rank 0 ordered.

        The orders are the same object where nothing has changed.
        """
        orders = self._received() if self._sent else self.standing
        if step % EVERY == 0:
            self._replica = step, self._shield.run("replica check", self._gathered.replicas.value)
        self.until = self._end
        if step >= self._end:
            self._send(step)
        return orders

    def flush(self) -> None:
        """Write what was sent and not read yet, and of what will not be sent any more this rank's own part."""
        self._received()
        block, self.held = self.held, []
        for seen in block:
            own = self._row(seen).packed()
            self._note(seen, [own], own)
        self._stream.flush()

    def _received(self) -> Orders:
        self._sent = False
        arrived = self._shield.run(EXCHANGE, self._link.take)
        return self._taken(*arrived) if arrived else self.standing

    def _send(self, step: int) -> None:
        """Send the block that is over with `step`."""
        block, self.held = self.held, []
        rows = [self._shield.run(TELEMETRY, self._row, seen) or Row() for seen in block]
        if self._shield.asleep:
            rows[-1] = rows[-1]._replace(flags=rows[-1].flags | self._broken())
        if self._desk is not None:
            rows[-1] = self._signed(rows[-1], block, self._desk)
        self._shield.run(EXCHANGE, self._link.send, block, rows)
        self._sent, self.until = True, 0

    def _signed(self, row: Row, block: list[Seen], desk: Desk) -> Row:
        """The row with what all ranks are to do from the step after this one on, until the next block is over."""
        step, told = block[-1][0], [fields for _, _, _, _, fields, _ in block]
        orders = self._shield.run("directives", desk.orders, step, AHEAD, told)
        self._own = orders or self._own._replace(due=False)
        now = time.monotonic()
        pace, self._began = (now - self._began) / len(block), now
        until = step + min(max(int(HOLD_SECONDS / max(pace, 1e-9)), 1), self._link.most)
        until = min(until, step + EVERY - step % EVERY)  # where the replicas are looked at
        if desk.until > step + AHEAD:
            until = min(until, desk.until - AHEAD)
        scale, clip_scale, due, stop = self._own
        return row._replace(scale=scale, clip_scale=clip_scale, due=due, stop=stop, until=step + 1 if stop else until)

    def _row(self, seen: Seen) -> Row:
        step, _, loss, shards, _, (_, (norm, _, bad, skipped, _)) = seen
        known = self._gathered.shards
        for shard_hash, name in known.new(shards):
            if self._desk is None:
                self._stream.send({"type": "shard", "hash": shard_hash, "name": name})
        replica = self._replica[1] if self._replica[0] == step else None
        flags = HAS_LOSS * (loss is not None) | HAS_NORM * (norm is not None) | SKIPPED * skipped
        flags |= HAS_SUM * (replica is not None)
        values = self._here(loss), self._here(norm), bad, len(shards), self._here(replica)
        return Row(flags, *values, known.hashes(shards))

    def _here(self, value: Any) -> float | Tensor:
        if value is None:
            return 0.0
        if self.reads or not isinstance(value, Tensor):
            return float(value)
        return value.detach().reshape(())

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
            self._shield.run(TELEMETRY, self._keep, calm and not flags & SKIPPED, seen, rows)
        elif not calm:
            self._shield.run(TELEMETRY, self._tell_own, seen, own)

    def _share(self, flags: int) -> None:
        for part, bit in SHARED.items():
            if flags & bit:
                self._shield.asleep.add(part)

    def _ordered(self, first: Sequence[float]) -> Orders:
        """What rank 0 orders with its row."""
        scale, clip_scale, due, stop, until = first[-5:]
        self._end = int(until)
        standing = self.standing
        if due or scale != standing.scale or clip_scale != standing.clip_scale or stop != standing.stop:
            orders = Orders(scale, clip_scale, bool(due), int(stop))
            self.standing = orders._replace(due=False) if due else orders
            return orders
        return standing

    def _keep(self, calm: bool, seen: Seen, rows: Rows) -> None:
        self._stream.held.append((seen, rows))
        now = time.monotonic()
        if now >= self._due or not calm:
            self._due = now + HOLD_SECONDS
            self._stream.flush()

    def _tell_own(self, seen: Seen, row: Sequence[float]) -> None:
        """A rank that does not write for all tells what is wrong with its own step."""
        if row[BAD] or not (isfinite(row[LOSS]) and isfinite(row[NORM])):
            self._stream.tell(record(seen, row[LOSS], row[NORM]))


def _of_many(rows: Tensor) -> tuple[int, bool]:
    """All flags that a rank raised, and whether every loss and norm is finite."""
    flags = 0
    for found in torch.unique(rows[:, 0]).tolist():
        flags |= int(found)
    return flags, bool(torch.isfinite(rows[:, LOSS : NORM + 1]).all())
