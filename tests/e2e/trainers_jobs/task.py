"""What the small trainers have in common: text that can be learned, a shard that cannot, a rate that is too high."""

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orchestrator.training.data import kept

VOCABULARY, LENGTH, ROWS = 16, 15, 64
SHARD_STEPS = 40
PAUSE = 0.01  # seconds a batch: a trainer that is done before anybody could act proves nothing
SHARDS = tuple(f"shard-{number:02d}" for number in range(20))
BAD = SHARDS[3]  # read in steps 121 ... 160
RISE_AT, RISE = 120, 60.0  # the mistake in the schedule: from then on the rate is so many times higher


class Batch(NamedTuple):
    """Tokens, shape (ROWS, LENGTH + 1), and the shard they were read from."""

    tokens: Tensor
    shard: str


def batches(fault: str, shards: Sequence[str] = SHARDS) -> Iterator[Batch]:
    """The whole text in its order, without the shards in quarantine."""
    for shard in kept(shards):
        seed = torch.Generator().manual_seed(SHARDS.index(shard))
        for _ in range(SHARD_STEPS):
            time.sleep(PAUSE)
            yield Batch(text(seed, broken=fault == "shard" and shard == BAD), shard)


def text(seed: torch.Generator, broken: bool) -> Tensor:
    """Rows in which each token follows from the one before, nine times of ten; broken, they are noise."""
    noise = torch.randint(VOCABULARY, (ROWS, LENGTH + 1), generator=seed)
    if broken:
        return noise
    # Always a tenth of them, or the loss would say how many there were.
    odd = (torch.randperm(noise.numel(), generator=seed) % 10 == 0).view_as(noise)
    columns = [noise[:, 0]]
    for place in range(1, LENGTH + 1):
        columns.append(torch.where(odd[:, place], noise[:, place], (3 * columns[-1] + 1) % VOCABULARY))
    return torch.stack(columns, dim=1)


def loss_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """The mean loss of the following tokens; logits have shape (ROWS, LENGTH, VOCABULARY)."""
    return nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(VOCABULARY, 32), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, VOCABULARY))


def rise(fault: str, step: int) -> float:
    """What the mistake makes of the rate of the update to `step`."""
    return RISE if fault == "rate" and step > RISE_AT else 1.0


def arguments(**more: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=280)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--fault", choices=("none", "shard", "rate"), default="none")
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()
