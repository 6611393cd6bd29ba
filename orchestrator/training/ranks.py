"""What one rank tells the others of a step, as a row of numbers: its loss, norm and shard hashes, and rank 0's orders.

A row is float64; a shard's hash has 52 bits, so it survives the trip exactly.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from orchestrator import wire

SLOTS = 8  # shard hashes a rank can send a step
SHOWN = 64  # ranks whose values are listed one by one
ODD_MADS, ODD_MOST = 8.0, 16  # a summary names ranks farther than this from the median, the worst first
LOOKUPS = 16  # side files read a step
WIDTH = 11 + SLOTS
HAS_LOSS, HAS_NORM, SKIPPED, HAS_SUM = 1, 2, 4, 32
LOSS, NORM, BAD, COUNT, SUM, HASHES = 1, 2, 3, 4, 5, 6


class Row(NamedTuple):
    """One rank's part of the exchange; of the last five only rank 0's count, in the last row of a block.

    Loss, norm and replica may be tensors on an accelerator; `until` is the step after which the next block ends.
    """

    flags: int = 0
    loss: float | Tensor = 0.0
    norm: float | Tensor = 0.0
    nonfinite: int = 0
    shards: int = 0
    replica: float | Tensor = 0.0
    hashes: tuple[int, ...] = ()
    scale: float = 1.0
    clip_scale: float = 1.0
    due: int = 0
    stop: int = 0
    until: int = 0

    def packed(self) -> tuple[Any, ...]:
        """The row as WIDTH numbers."""
        flags, loss, norm, bad, shards, replica, hashes, *orders = self
        return (flags, loss, norm, bad, shards, replica, *hashes, *_PAD[len(hashes) :], *orders)


_PAD = (0,) * SLOTS
LAYOUT = Struct(f"={WIDTH}d")
Rows: TypeAlias = Tensor | list[tuple[float, ...]]  # of all ranks; of up to SHOWN as numbers


def hash_of(shard: str) -> int:
    """A stable 52-bit hash of a shard's name."""
    return int.from_bytes(hashlib.blake2b(shard.encode(), digest_size=7).digest(), "big") >> 4


class Shards:
    """Names behind hashes. A rank writes a name to its own file before it sends the hash for the first time."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._run_dir, self._attempt = run_dir, attempt
        self._names: dict[int, str] = {}
        self._hashes: dict[str, int] = {}
        self._read: dict[int, int] = {}
        self._last: tuple[list[tuple[float, ...]], tuple[list[str], int]] = ([], ([], 0))
        self._sent: tuple[Sequence[str], tuple[int, ...]] = ((), ())

    def new(self, shards: Sequence[str]) -> list[tuple[int, str]]:
        """The names not met before, with their hashes; they are known from now on."""
        fresh = []
        for shard in shards:
            if shard not in self._hashes:
                number = self._hashes[shard] = hash_of(shard)
                self._names[number] = shard
                fresh.append((number, shard))
        return fresh

    def hashes(self, shards: Sequence[str]) -> tuple[int, ...]:
        """The hashes of the first SLOTS of a batch's shards, all met before."""
        if shards != self._sent[0]:  # consecutive steps mostly read the same
            self._sent = shards[:], tuple(self._hashes[shard] for shard in shards[:SLOTS])
        return self._sent[1]

    def names_of_few(self, table: Sequence[tuple[float, ...]]) -> tuple[list[str], int]:
        """`names` for the rows of a few ranks as lists; consecutive steps mostly read the same."""
        read = [row[COUNT:SUM] + row[HASHES : HASHES + SLOTS] for row in table]
        if read != self._last[0]:
            self._last = (read, self.names(torch.tensor(table, dtype=torch.float64)))
        return self._last[1]

    def names(self, rows: Tensor) -> tuple[list[str], int]:
        """The union of the shards of all ranks, in the order of the ranks, and how many could not be named."""
        counts = rows[:, COUNT]
        more = int((counts - SLOTS).clamp(min=0).sum())
        found: dict[str, None] = {}
        lookups = 0
        table, wide = rows[:, HASHES : HASHES + SLOTS], int(counts.max().clamp(max=SLOTS))
        for number, rank in _first_ranks(table[:, :wide]):
            if number not in self._names and lookups < LOOKUPS:
                lookups += 1
                self._look_up(rank)
            if number in self._names:
                found[self._names[number]] = None
            else:
                more += 1
        return list(found), more

    def _look_up(self, rank: int) -> None:
        path = wire.telemetry_file(self._run_dir, self._attempt, rank)
        try:
            with open(path, "rb") as file:
                file.seek(self._read.get(rank, 0))
                text = file.read()
        except OSError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._read[rank] = self._read.get(rank, 0) + len(whole)
        for line in whole.splitlines():
            if b'"shard"' in line:
                message = json.loads(line)
                self._names[int(message["hash"])] = message["name"]


def _first_ranks(table: Tensor) -> list[tuple[int, int]]:
    if not table.shape[1]:
        return []
    if table.shape[0] <= SHOWN:
        rows = table.tolist()
        first: dict[int, int] = {}
        for rank, row in enumerate(rows):
            for number in row:
                if number:
                    first.setdefault(int(number), rank)
        return list(first.items())
    values, inverse = torch.unique(table, return_inverse=True)
    ranks = torch.arange(table.shape[0]).unsqueeze(1).expand_as(table)
    lowest = torch.full(values.shape, table.shape[0]).scatter_reduce_(0, inverse.flatten(), ranks.flatten(), "amin")
    pairs = zip(values.tolist(), lowest.tolist(), strict=True)
    return sorted(((int(number), rank) for number, rank in pairs if number), key=lambda pair: pair[1])


def block(values: Tensor, given: Tensor) -> Any:
    """One quantity of all ranks, shape (ranks,), for the wire: a list, or for many ranks a summary.

    `given` tells which ranks have a value. The summary holds the median, the median absolute deviation, and the
    odd ranks by number: those far from the median and those not finite. Medians are the lower of two.
    """
    if values.shape[0] <= SHOWN:
        return [value if has else None for value, has in zip(values.tolist(), given.tolist(), strict=True)]
    finite = given & torch.isfinite(values)
    good = values[finite]
    odd = {str(rank): float(values[rank]) for rank in _first(torch.nonzero(given & ~finite).flatten())}
    if not len(good):
        return {"odd": odd}
    median = good.median()
    off = (values - median).abs().masked_fill_(~finite, 0.0)
    mad = (good - median).abs().median()
    far = torch.nonzero(off > torch.clamp(ODD_MADS * mad, min=1e-9)).flatten()
    if len(far) > ODD_MOST:
        far = far[off[far].topk(ODD_MOST).indices]
    odd.update({str(rank): float(values[rank]) for rank in far.tolist()})
    return {"median": float(median), "mad": float(mad), "odd": odd}


def _first(ranks: Tensor) -> list[int]:
    listed: list[int] = ranks[:ODD_MOST].tolist()
    return listed
