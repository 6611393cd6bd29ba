"""One small all-gather a step: losses and shard hashes come in, rank 0's directives go out.

A row is float64; a shard's hash has 52 bits, so it survives the trip exactly. On an accelerator nothing is
waited for: what a step sends is read when the next one comes.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from orchestrator import wire

SLOTS = 8  # shard hashes a rank can send a step
SHOWN = 64  # ranks whose values are listed one by one
ODD_MADS, ODD_MOST = 8.0, 16  # a summary names ranks farther than this from the median, the worst first
LOOKUPS = 16  # side files read a step
WIDTH = 10 + SLOTS
HAS_LOSS, HAS_NORM, SKIPPED, HAS_SUM = 1, 2, 4, 32
LOSS, NORM, BAD, COUNT, SUM, HASHES = 1, 2, 3, 4, 5, 6


class Row(NamedTuple):
    """One rank's part of the exchange; of the last four only rank 0's count."""

    flags: int = 0
    loss: float = 0.0
    norm: float = 0.0
    nonfinite: int = 0
    shards: int = 0
    replica: float = 0.0
    hashes: tuple[int, ...] = ()
    scale: float = 1.0
    clip_scale: float = 1.0
    due: int = 0
    stop: int = 0

    def packed(self) -> tuple[float, ...]:
        """The row as WIDTH numbers."""
        flags, loss, norm, bad, shards, replica, hashes, *orders = self
        return (flags, loss, norm, bad, shards, replica, *hashes, *_PAD[len(hashes) :], *orders)


_PAD = (0,) * SLOTS
_ROW = Struct(f"={WIDTH}d")
Rows: TypeAlias = Tensor | list[tuple[float, ...]]  # of all ranks; of up to SHOWN as numbers


def hash_of(shard: str) -> int:
    """A stable 52-bit hash of a shard's name."""
    return int.from_bytes(hashlib.blake2b(shard.encode(), digest_size=7).digest(), "big") >> 4


class Link:
    """The exchange over the job's own process group; alone it only carries values off the device.

    In the CPU's memory both ends are buffers made once: few ranks' rows go in and come out as numbers, without tensors.
    """

    def __init__(self, rank: int, world: int, device: torch.device, late: bool | None = None) -> None:
        self.rank, self._world, self._device = rank, world, device
        self._cuda = device.type == "cuda"
        self.late = device.type != "cpu" if late is None else late
        self._sent: tuple[Any, Tensor, Any] | None = None
        self._out, self._in = bytearray(_ROW.size), bytearray(_ROW.size * world)
        self._own = torch.frombuffer(self._out, dtype=torch.float64)
        self._rows = torch.frombuffer(self._in, dtype=torch.float64) if world > 1 else self._own

    def exchange(self, ticket: Any, row: Row, loss: Any, norm: Any, replica: Any = None) -> tuple[Any, Rows] | None:
        """Send this rank's row; get a ticket back with the rows of all ranks, WIDTH numbers each, off the device.

        `loss`, `norm` and `replica`, where they are tensors, are filled into the row on the device. On an accelerator
        the ticket is the one of the step before, None at the first.
        """
        _ROW.pack_into(self._out, 0, *row.packed())
        if not self.late:
            if self._world > 1:
                _gather_rows(self._rows, self._own)
            if self._world <= SHOWN:
                return ticket, list(_ROW.iter_unpack(self._in if self._world > 1 else self._out))
            return ticket, self._rows.view(self._world, WIDTH).clone()
        own = (self._own.pin_memory() if self._cuda else self._own).to(self._device, non_blocking=True)
        for slot, value in ((LOSS, loss), (NORM, norm), (SUM, replica)):
            if isinstance(value, Tensor):
                own[slot] = value.detach().to(torch.float64)
        gathered = self._gather(own)
        here = torch.empty(gathered.shape, dtype=torch.float64, pin_memory=self._cuda)
        here.copy_(gathered, non_blocking=self._cuda)
        back = self.flush()
        self._sent = (ticket, here, _mark() if self._cuda else None)
        return back

    def flush(self) -> tuple[Any, Rows] | None:
        """What was sent and not yet read, waiting for it; None when there is nothing."""
        if self._sent is None:
            return None
        ticket, here, event = self._sent
        self._sent = None
        if event is not None:
            event.synchronize()
        return ticket, list(map(tuple, here.tolist())) if self._world <= SHOWN else here

    def _gather(self, own: Tensor) -> Tensor:
        if self._world == 1:
            return own.view(1, WIDTH)
        rows = torch.empty(self._world * WIDTH, dtype=torch.float64, device=own.device)
        _gather_rows(rows, own)
        return rows.view(self._world, WIDTH)


def _gather_rows(rows: Tensor, own: Tensor) -> None:
    # The same call; newer versions of torch warn under the older name, which costs more than the call.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(rows, own)


def _mark() -> Any:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


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
