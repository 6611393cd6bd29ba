"""What can go wrong in a training run, to be put into the example by name; nothing here is needed to train.

Places are shares of the second phase. Where a fault belongs to the first attempt only, the relaunched job
is free of it; the others come back when their step is run again.
"""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from examples.tiny_gpt.data import ROW, ROWS, Batch, Corpus, Shard

TOO_HIGH = 100.0  # of the trainer's own rate; measured: a quarter of that is healthy, half of it is not


def place(share: float, steps: int, switch: int) -> int:
    """The step at a share of the second phase, which follows step `switch`."""
    return switch + round(share * (steps - switch))


class Now(NamedTuple):
    """Where the run is, and what a fault may touch."""

    step: int
    steps: int
    switch: int
    batch: Batch
    model: nn.Module
    optimizer: Optimizer

    def at(self, share: float) -> bool:
        """Whether this is the step at a share of the second phase."""
        return self.step == place(share, self.steps, self.switch)


def bad_batch(now: Now) -> Batch | None:
    """One batch of noise; the run heals by itself."""
    return _noise(now.batch, now.step) if now.at(1 / 6) else None


def bad_rank(now: Now) -> Batch | None:
    """The last rank reads its bytes in a wrong order for a while."""
    begin, end = (place(share, now.steps, now.switch) for share in (0.25, 0.35))
    if not _last_rank() or not begin <= now.step < end:
        return None
    order = torch.randperm(now.batch.text.shape[1], generator=torch.Generator().manual_seed(now.step))
    return now.batch._replace(text=now.batch.text[:, order], following=now.batch.following[:, order])


def lr_too_high(now: Now) -> None:
    """At the phase switch the trainer turns up its own learning rate, for good."""
    if now.step == now.switch + 1:
        for group in now.optimizer.param_groups:
            group["lr"] *= TOO_HIGH


def nan(now: Now) -> None:
    """The gradients of one step are not finite."""
    if now.at(1 / 4):
        weight = next(now.model.parameters())
        handle = weight.register_hook(lambda grad: handle.remove() or grad * float("nan"))


def nan_weights(now: Now) -> None:
    """A weight turns NaN, in the first attempt."""
    if _first_attempt():
        nan_again(now)


def nan_again(now: Now) -> None:
    """A weight turns NaN, in every attempt."""
    if now.at(1 / 4):
        with torch.no_grad():
            list(now.model.parameters())[-1][0, 0] = float("nan")


def crash(now: Now) -> None:
    """One rank fails, in the first attempt."""
    if _first_attempt():
        crash_again(now)


def crash_again(now: Now) -> None:
    """One rank fails, in every attempt."""
    if now.at(1 / 4) and _last_rank():
        raise RuntimeError(f"the fault asked for, at step {now.step}")


def hang(now: Now) -> None:
    """One rank stops and says nothing, in the first attempt."""
    if now.at(1 / 4) and _last_rank() and _first_attempt():
        while True:
            time.sleep(60)


Strike = Callable[[Now], Batch | None]

FAULTS: dict[str, tuple[Strike, ...]] = {
    "none": (), "bad_shard": (), "bad_batch": (bad_batch,), "default": (bad_batch,), "bad_rank": (bad_rank,),
    "lr_too_high": (lr_too_high,), "nan": (nan,), "nan_weights": (nan_weights,), "nan_again": (nan_again,),
    "crash": (crash,), "crash_again": (crash_again,), "hang": (hang,),
}  # fmt: skip
BAD_SHARD = ("bad_shard", "default")


class Faults:
    """The faults of a name, at the places that a run of so many steps has for them."""

    def __init__(self, name: str, steps: int, switch: int) -> None:
        self._name, self._strikes, self._steps, self._switch = name, FAULTS[name], steps, switch

    def plant(self, corpus: Corpus) -> None:
        """Put a long shard of noise among those of the second phase, where the name says so."""
        if self._name in BAD_SHARD:
            shards = corpus.shards["code"]
            begin = place(0.433, self._steps, self._switch)
            number = (begin - self._switch) // shards[0].steps
            noise = _random_bytes(((self._steps - begin) * ROWS, ROW), 0).to(torch.uint8)
            shards[number] = Shard(shards[number].name, noise)

    def strike(self, step: int, batch: Batch, model: nn.Module, optimizer: Optimizer) -> Batch:
        """The batch to train on at a step; other harm is done on the way."""
        for strike in self._strikes:
            batch = strike(Now(step, self._steps, self._switch, batch, model, optimizer)) or batch
        return batch


def _noise(batch: Batch, seed: int) -> Batch:
    rows = _random_bytes((len(batch.text), ROW), seed)
    return batch._replace(text=rows[:, :-1], following=rows[:, 1:])


def _random_bytes(shape: tuple[int, int], seed: int) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed))


def _last_rank() -> bool:
    return int(os.environ.get("RANK", "0")) == int(os.environ.get("WORLD_SIZE", "1")) - 1


def _first_attempt() -> bool:
    return os.environ.get("ORCHESTRATE_ATTEMPT", "1") == "1"
