"""One small all-gather over the job's own process group, never waited for.

What the ranks send is read at the step after it: by then they have met in the gradients of that step, and to wait at
once would be a second place where the faster rank stands still. Threads of the exchange take the processor from the
trainer's, so quick steps share one: each rank adds a row a step, and the rows of a block go together.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from orchestrator.training.ranks import LAYOUT, SHOWN, WIDTH, Row, Rows

MOST = 16  # steps of a block
Arrived: TypeAlias = tuple[Any, list[Rows]] | None  # a block's ticket, and for each step of it the rows of all ranks


class HostLink:
    """The exchange in the CPU's memory, where values can be read at no cost.

    Both ends are buffers that stay: few ranks' rows go in and come out as numbers, without tensors. Of many ranks a
    block is one step, or its rows would be large.
    """

    reads = True

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self._world, self._few = rank, world, world <= SHOWN
        self.most = MOST if self._few else 1
        self._make(self.most)
        self._sent: tuple[Any, int, Any] | None = None

    def _make(self, room: int) -> None:
        self._room, size = room, LAYOUT.size * room
        self._out, self._in = memoryview(bytearray(size)), memoryview(bytearray(size * self._world))
        self._own = torch.frombuffer(self._out, dtype=torch.float64)
        self._rows = torch.frombuffer(self._in, dtype=torch.float64)

    def send(self, ticket: Any, block: Sequence[Row]) -> None:
        """Send this rank's rows of some steps, all ranks those of the same."""
        count = len(block)
        if count > self._room:  # a trainer that reports the same step more than once
            self._make(count)
        for place, row in enumerate(block):
            LAYOUT.pack_into(self._out, place * LAYOUT.size, *row.packed())
        own, rows = self._own[: count * WIDTH], self._rows[: self._world * count * WIDTH]
        self._sent = ticket, count, _gather(rows, own, later=True)

    def take(self) -> Arrived:
        """What was sent and not yet read, waiting for it; None when there is nothing."""
        if self._sent is None:
            return None
        (ticket, count, work), self._sent = self._sent, None
        work.wait()
        if self._few:
            rows = list(LAYOUT.iter_unpack(self._in[: self._world * count * LAYOUT.size]))
            return ticket, [rows[step::count] for step in range(count)]
        return ticket, [self._rows.view(self._world, WIDTH).clone()]


class DeviceLink:
    """The exchange in an accelerator's memory, in the order of its stream; alone it only carries values off it."""

    reads = False
    most = 1

    def __init__(self, rank: int, world: int, device: torch.device) -> None:
        self.rank, self._world, self._device = rank, world, device
        self._cuda = device.type == "cuda"
        self._sent: tuple[Any, Tensor, Any] | None = None

    def send(self, ticket: Any, block: Sequence[Row]) -> None:
        """As `HostLink.send`; values of a row that are tensors are filled in on the device."""
        values = block[0].packed()
        tensors = {place: value for place, value in enumerate(values) if isinstance(value, Tensor)}
        known = [0.0 if place in tensors else value for place, value in enumerate(values)]
        own = torch.tensor(known, dtype=torch.float64, pin_memory=self._cuda).to(self._device, non_blocking=True)
        for place, value in tensors.items():
            own[place] = value.to(torch.float64)
        here = torch.empty((self._world, WIDTH), dtype=torch.float64, pin_memory=self._cuda)
        here.copy_(self._gathered(own), non_blocking=self._cuda)
        self._sent = (ticket, here, _mark() if self._cuda else None)

    def take(self) -> Arrived:
        """As `HostLink.take`."""
        if self._sent is None:
            return None
        (ticket, here, event), self._sent = self._sent, None
        if event is not None:
            event.synchronize()
        return ticket, [list(map(tuple, here.tolist())) if self._world <= SHOWN else here]

    def _gathered(self, own: Tensor) -> Tensor:
        if self._world == 1:
            return own.view(1, WIDTH)
        rows = torch.empty(self._world * WIDTH, dtype=torch.float64, device=own.device)
        _gather(rows, own)
        return rows.view(self._world, WIDTH)


def link(rank: int, world: int, device: torch.device) -> HostLink | DeviceLink:
    """The exchange where it costs least: on the device, unless the group reaches only the CPU's memory."""
    if device.type == "cpu" or (world > 1 and _backend(device.type) == "gloo"):
        return HostLink(rank, world)
    return DeviceLink(rank, world, device)


def _backend(device: str) -> str:
    """The backend of the job's own group for a kind of device."""
    config = str(dist.get_backend_config(dist.group.WORLD))
    return dict(part.partition(":")[::2] for part in config.lower().split(",")).get(device, "gloo")


def _gather(rows: Tensor, own: Tensor, later: bool = False) -> Any:
    # The same call; newer versions of torch warn under the older name, which costs more than the call.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return gather(rows, own, async_op=later)


def _mark() -> Any:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event
