"""One record of a step from the rows of all ranks, shape (ranks, WIDTH): worked out when it is written."""

from math import isfinite
from typing import Any

import torch
from torch import Tensor

from orchestrator.training.ranks import (
    BAD,
    HAS_LOSS,
    HAS_NORM,
    HAS_SUM,
    LOSS,
    NORM,
    SHOWN,
    SKIPPED,
    SUM,
    Rows,
    Shards,
    block,
)
from orchestrator.training.replicas import Replicas
from orchestrator.training.seen import Seen, record
from orchestrator.training.stream import Record


class Gathered:
    """The names behind the ranks' shards, and whether replicas still agree, are remembered from step to step."""

    def __init__(self, shards: Shards, replicas: Replicas) -> None:
        self.shards, self.replicas = shards, replicas

    def record(self, held: tuple[Seen, Rows]) -> Record:
        """What rank 0 saw of a step with the rows of all ranks; those of up to SHOWN ranks as lists."""
        seen, rows = held
        return self._few(seen, rows) if isinstance(rows, list) else self._many(seen, rows)

    def _few(self, seen: Seen, table: list[tuple[float, ...]]) -> Record:
        """Every rank is shown."""
        flags = [int(row[0]) for row in table]
        losses = [row[LOSS] if flag & HAS_LOSS else None for row, flag in zip(table, flags, strict=True)]
        norms = [row[NORM] if flag & HAS_NORM else None for row, flag in zip(table, flags, strict=True)]
        given, normed = _known(losses), _known(norms)
        sums = [row[SUM] for row in table] if all(flag & HAS_SUM for flag in flags) else []
        shown: dict[str, Any] = {"loss": losses} if given else {}
        norm = normed[0] if normed else None
        # Replicated training has one norm; ranks that disagree about it are worth showing.
        if not all(_close(other, normed[0]) for other in normed):
            shown["grad_norm"] = norms
        if normed and not isfinite(sum(normed)):
            norm = next((other for other in normed if not isfinite(other)), norm)
        names, more = self.shards.names_of_few(table)
        own = record(seen, sum(given) / len(given) if given else None, norm)
        return own._replace(
            nonfinite=int(max([row[BAD] for row in table])),
            skipped=any(flag & SKIPPED for flag in flags),
            shards=names,
            fields=self._fields(own.fields, more, sums),
            ranks=shown if len(table) > 1 else None,
        )

    def _many(self, seen: Seen, rows: Tensor) -> Record:
        """A summary, and the odd ranks."""
        flags = rows[:, 0].to(torch.int64)
        losses, norms = rows[:, LOSS], rows[:, NORM]
        given, normed = (flags & HAS_LOSS) > 0, (flags & HAS_NORM) > 0
        shown: dict[str, Any] = {"n": len(rows)}
        if given.any():
            shown["loss"] = block(losses, given)
        if normed.any() and not torch.allclose(norms[normed], norms[normed][0], rtol=1e-6, atol=0.0, equal_nan=True):
            shown["grad_norm"] = block(norms, normed)
        sums = rows[:, SUM].tolist() if bool(((flags & HAS_SUM) > 0).all()) else []
        own = record(seen, losses[given].mean().item() if given.any() else None, _norm_of(norms[normed]))
        names, more = self.shards.names(rows)
        return own._replace(
            nonfinite=int(rows[:, BAD].max()),
            skipped=bool((flags & SKIPPED).any()),
            shards=names,
            fields=self._fields(own.fields, more, sums),
            ranks=shown,
        )

    def _fields(self, fields: dict[str, Any], more: int, sums: list[float]) -> dict[str, Any]:
        if more:
            fields = {**fields, "shards_more": more}
        odd = self.replicas.odd(sums) if sums else []
        return {**fields, "replicas_odd": odd[:SHOWN]} if odd else fields


def _known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-6 * abs(other) or one == other or (one != one and other != other)


def _norm_of(norms: Tensor) -> float | None:
    if not len(norms):
        return None
    bad = norms[~torch.isfinite(norms)]
    return (bad if len(bad) else norms)[0].item()
