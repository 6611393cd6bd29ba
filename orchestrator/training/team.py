"""Telemetry and orders of a job of many ranks, or of one on an accelerator: what goes through the exchange."""

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from orchestrator.training.guard import Report
from orchestrator.training.orders import Desk, Orders
from orchestrator.training.ranks import (
    HAS_LOSS,
    HAS_NORM,
    HAS_SUM,
    LOSS,
    NORM,
    SHOWN,
    SKIPPED,
    SUM,
    Link,
    Row,
    Shards,
    block,
)
from orchestrator.training.replicas import Replicas
from orchestrator.training.shield import Shield
from orchestrator.training.solo import named, number
from orchestrator.training.stream import Record, Stream

# Parts whose failure on one rank must be shared: updates have to stay the same on all.
SHARED = {"learning rate": 8, "gradient guard": 16}


class Team:
    """Every rank sends a row a step and obeys rank 0's; rank 0 writes, the others only what is exceptional."""

    def __init__(self, shield: Shield, stream: Stream, desk: Desk | None, link: Link, shards: Shards) -> None:
        self._shield, self._stream, self._desk, self._link, self._shards = shield, stream, desk, link, shards
        self.replicas = Replicas(())
        self._own = self.obeyed = Orders()

    def report(self, step: int, loss: Any, shards: Sequence[str], fields: dict[str, Any], done: Report) -> Orders:
        """Exchange this step's row, write what came back, and return what rank 0 orders.

        On an accelerator that is the record of the step before, and the orders it carried.
        """
        self._decide(step, fields)
        record = Record(
            step,
            time.time(),
            None,
            None,
            done.lrs,
            done.clip,
            done.nonfinite,
            done.skipped,
            shards,
            named(fields, done),
        )
        replica = self._shield.run("replica check", self.replicas.value, step)
        row = self._shield.run("telemetry", self._row, record, loss, done.grad_norm) or Row()
        if replica is not None:
            row = row._replace(flags=row.flags | HAS_SUM, replica=self._here(replica))
        row = row._replace(flags=row.flags | self._broken(), **self._own._asdict())
        own = (loss, done.grad_norm, replica)
        arrived = self._shield.run("exchange between ranks", self._link.exchange, record, row, *own)
        if arrived is not None:
            self._take(*arrived)
        else:
            self.obeyed = self.obeyed._replace(due=False)
        return self.obeyed

    def flush(self) -> None:
        """Write what was sent and not read yet."""
        arrived = self._link.flush()
        if arrived is not None:
            self._take(*arrived)
        self._stream.flush()

    def _decide(self, step: int, fields: dict[str, Any]) -> None:
        if self._desk is None:
            return
        ahead = 1 if self._link.late else 0
        orders = self._shield.run("directives", self._desk.orders, step, ahead, fields.get("tokens") or 0)
        self._own = orders or self._own._replace(due=False)

    def _row(self, record: Record, loss: Any, norm: Any) -> Row:
        names = list(record.shards)
        for shard_hash, name in self._shards.new(names):
            if self._desk is None:
                self._stream.send({"type": "shard", "hash": shard_hash, "name": name})
        flags = HAS_LOSS * (loss is not None) | HAS_NORM * (norm is not None) | SKIPPED * record.skipped
        return Row(
            flags, self._here(loss), self._here(norm), record.nonfinite, len(names), 0.0, self._shards.hashes(names)
        )

    def _here(self, value: Any) -> float:
        if self._link.late and isinstance(value, Tensor):
            return 0.0  # the link fills it in on the device
        return number(value) or 0.0

    def _broken(self) -> int:
        return sum(bit for part, bit in SHARED.items() if part in self._shield.asleep)

    def _take(self, record: Record, rows: Tensor) -> None:
        if len(rows) <= SHOWN:
            self._take_few(record, rows.tolist())
            return
        self._obey(rows[0].tolist())
        flags = rows[:, 0].to(torch.int64)
        for part, bit in SHARED.items():
            if (flags & bit).any():
                self._shield.asleep.add(part)
        if self._desk is not None:
            self._shield.run("telemetry", self._write, record, rows, flags)
        else:
            self._shield.run("telemetry", self._write_exceptional, record, rows)

    def _obey(self, first: list[float]) -> None:
        scale, clip_scale, due, stop = first[-4:]
        self.obeyed = Orders(scale, clip_scale, bool(due), int(stop))

    def _take_few(self, record: Record, table: list[list[float]]) -> None:
        """The same for few ranks, without tensors: for so few numbers each operation costs more than the numbers."""
        self._obey(table[0])
        flags = [int(row[0]) for row in table]
        for part, bit in SHARED.items():
            if any(flag & bit for flag in flags):
                self._shield.asleep.add(part)
        if self._desk is not None:
            self._shield.run("telemetry", self._write_few, record, table, flags)
            return
        own = table[self._link.rank]
        if record.nonfinite or not (math.isfinite(own[LOSS]) and math.isfinite(own[NORM])):
            self._shield.run("telemetry", self._stream.record, record._replace(loss=own[LOSS], grad_norm=own[NORM]))

    def _write_few(self, record: Record, table: list[list[float]], flags: list[int]) -> None:
        losses = [row[LOSS] if flag & HAS_LOSS else None for row, flag in zip(table, flags, strict=True)]
        norms = [row[NORM] if flag & HAS_NORM else None for row, flag in zip(table, flags, strict=True)]
        given, normed = _known(losses), _known(norms)
        names, more = self._shards.names_of_few(table)
        shown: dict[str, Any] | None = {"loss": losses} if given else {}
        fields = {**record.fields, "shards_more": more} if more else record.fields
        if all(flag & HAS_SUM for flag in flags):
            fields = self._compared(fields, [row[SUM] for row in table])
        if any(not _close(norm, normed[0]) for norm in normed):
            shown = {**(shown or {}), "grad_norm": norms}
        self._stream.record(
            record._replace(
                loss=sum(given) / len(given) if given else None,
                grad_norm=next((norm for norm in normed if not math.isfinite(norm)), normed[0] if normed else None),
                nonfinite=int(max(row[3] for row in table)),
                skipped=any(flag & SKIPPED for flag in flags),
                shards=names,
                fields=fields,
                ranks=shown if len(table) > 1 else None,
            )
        )

    def _write(self, record: Record, rows: Tensor, flags: Tensor) -> None:
        losses, norms = rows[:, LOSS], rows[:, NORM]
        given, normed = (flags & HAS_LOSS) > 0, (flags & HAS_NORM) > 0
        names, more = self._shards.names(rows)
        fields = {**record.fields, "shards_more": more} if more else record.fields
        if bool(((flags & HAS_SUM) > 0).all()):
            fields = self._compared(fields, rows[:, SUM].tolist())
        record = record._replace(
            loss=losses[given].mean().item() if given.any() else None,
            grad_norm=_norm_of(norms[normed]),
            nonfinite=int(rows[:, 3].max()),
            skipped=bool((flags & SKIPPED).any()),
            shards=names,
            fields=fields,
            ranks=_ranks(losses, given, norms, normed),
        )
        self._stream.record(record)

    def _compared(self, fields: dict[str, Any], sums: list[float]) -> dict[str, Any]:
        odd = self.replicas.odd(sums)
        return {**fields, "replicas_odd": odd[:SHOWN]} if odd else fields

    def _write_exceptional(self, record: Record, rows: Tensor) -> None:
        own = rows[self._link.rank]
        if record.nonfinite or not torch.isfinite(own[LOSS : NORM + 1]).all():
            loss, norm = own[LOSS].item(), own[NORM].item()
            self._stream.record(record._replace(loss=loss, grad_norm=norm))


def _known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-6 * abs(other) or one == other or (one != one and other != other)


def _norm_of(norms: Tensor) -> float | None:
    if not len(norms):
        return None
    bad = norms[~torch.isfinite(norms)]
    return (bad if len(bad) else norms)[0].item()


def _ranks(losses: Tensor, given: Tensor, norms: Tensor, normed: Tensor) -> dict[str, Any] | None:
    if len(losses) == 1:
        return None
    shown: dict[str, Any] = {"n": len(losses)} if len(losses) > SHOWN else {}
    if given.any():
        shown["loss"] = block(losses, given)
    # Replicated training has one norm; ranks that disagree about it are worth showing.
    if normed.any() and not torch.allclose(norms[normed], norms[normed][0], rtol=1e-6, atol=0.0, equal_nan=True):
        shown["grad_norm"] = block(norms, normed)
    return shown
