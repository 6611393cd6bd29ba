"""The training text: Python's own documentation as `prose`, then its standard library's sources as `code`.

The text of a phase is cut into pieces, mixed, and dealt into named shards of which each is worth a fixed
number of steps. Which shard a step reads follows from the step and the shards left out alone, so a run that
resumes goes on where it was, and without a shard the later ones move up.
"""

import random
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from examples.tiny_gpt.model import BYTES, CONTEXT

PHASES = ("prose", "code")
ROWS = 24  # rows of a batch, all ranks together
SHARD_STEPS = 10
ROW = CONTEXT + 1
SPARE = 8  # shards of a phase beyond what its steps need, to move up when some are left out


class Batch(NamedTuple):
    """One rank's rows of a step: bytes and the bytes that follow, each of shape (rows, CONTEXT)."""

    text: Tensor
    following: Tensor
    shards: tuple[str, ...]


class Shard(NamedTuple):
    """A named piece of the data: rows of bytes, shape (steps * ROWS, ROW)."""

    name: str
    rows: Tensor

    @property
    def steps(self) -> int:
        """How many steps the shard is worth."""
        return len(self.rows) // ROWS


class Corpus:
    """The shards of both phases in their order, and the held-out rows of both."""

    def __init__(self, steps: int, switch: int = 400, seed: int = 0) -> None:
        self.switch = switch
        order = random.Random(seed)
        self.shards: dict[str, list[Shard]] = {}
        held_out = []
        for phase, length in zip(PHASES, (min(switch, steps), max(steps - switch, 0)), strict=True):
            rows = _rows(phase)
            held_out.append(rows[: 2 * ROWS])
            count = -(-length // SHARD_STEPS) + SPARE
            self.shards[phase] = _deal(phase, rows[2 * ROWS :], count, order)
        self.held_out = torch.cat(held_out)

    @property
    def shards_total(self) -> int:
        """How many shards there are."""
        return sum(map(len, self.shards.values()))

    def phase(self, step: int) -> str:
        """The phase of a step; the first step is 1."""
        return PHASES[step > self.switch]

    def find(self, step: int, without: frozenset[str] = frozenset()) -> tuple[Shard, int]:
        """The shard that a step reads when some are left out, and which of the shard's steps it is, from 0."""
        phase = self.phase(step)
        kept = [shard for shard in self.shards[phase] if shard.name not in without]
        if not kept:
            raise ValueError(f"every shard of {phase} is left out")
        index = step - 1 if phase == PHASES[0] else step - 1 - self.switch
        index %= sum(shard.steps for shard in kept)
        position = 0
        while index >= kept[position].steps:
            index -= kept[position].steps
            position += 1
        return kept[position], index

    def batches(self, start: int, without: frozenset[str], rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """The batches of the steps after `start`; every rank reads other rows of the same shard."""
        step = start
        while True:
            step += 1
            shard, index = self.find(step, without)
            rows = shard.rows[index * ROWS + rank : (index + 1) * ROWS : world].long()
            yield Batch(rows[:, :-1], rows[:, 1:], (shard.name,))


def _deal(phase: str, rows: Tensor, count: int, order: random.Random) -> list[Shard]:
    size = SHARD_STEPS * ROWS
    available = len(rows) // size
    numbers = list(range(min(count, available)))
    order.shuffle(numbers)
    return [Shard(f"{phase}-{n:04d}", rows[n * size : (n + 1) * size]) for n in numbers]


@cache
def _rows(phase: str) -> Tensor:
    """All rows of a phase, shape (rows, ROW), mixed so that one batch is as hard as another.

    Rows are ranked by how surprising their pairs of bytes are, which tells fairly well how hard they are to
    predict; every batch gets one row of each rank.
    """
    text = (_prose() if phase == "prose" else _code()).encode()
    batches = len(text) // ROW // ROWS
    rows = torch.frombuffer(bytearray(text[: batches * ROWS * ROW]), dtype=torch.uint8).view(-1, ROW)
    chance = torch.Generator().manual_seed(0)
    pairs = rows[:, :-1].long() * BYTES + rows[:, 1:]
    seen = torch.bincount(pairs.flatten(), minlength=BYTES * BYTES).view(BYTES, BYTES).clamp(min=1)
    surprise = -(seen / seen.sum(1, keepdim=True)).log().flatten()[pairs].sum(1)
    ranked = surprise.argsort(stable=True).view(ROWS, batches)
    places = torch.rand(ROWS, batches, generator=chance).argsort(1)
    mixed = ranked.gather(1, places).T
    return rows[mixed[torch.randperm(batches, generator=chance)].flatten()]


def _prose() -> str:
    from pydoc_data.topics import topics

    docstrings = (text for text in re.findall(r'"""(.*?)"""', _code(), re.DOTALL) if len(text) > 200)
    return "\n\n".join([*(topics[name] for name in sorted(topics)), *docstrings])


def _code() -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in _sources())


def _sources() -> list[Path]:
    return sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
