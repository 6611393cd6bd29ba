"""What a generated run carries beside its messages: what was planted in it, and how soon it can be seen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Message: TypeAlias = dict[str, Any]

CLASSES = ("isolated", "repeated", "persistent", "nonfinite", "rank_local")


class Event(NamedTuple):
    """One excursion: its first and last step, its height as a share of the clean loss and in noise deviations."""

    step: int
    last: int
    height: float
    sigmas: float

    @property
    def certain(self) -> bool:
        """High enough that a detector has to find it: at least 7 % and 7 deviations."""
        return self.height >= 0.07 - 1e-9 and self.sigmas >= 7 - 1e-9


class Expected(NamedTuple):
    """One incident that a right reading of the run holds.

    `lo` and `hi` bound its onset, `fault` is the first step whose record shows it, and a detection
    after `by` counts as none.
    """

    kind: str
    lo: int
    hi: int
    fault: int
    by: int
    events: tuple[Event, ...]
    rank: int | None = None


@dataclass(kw_only=True)
class Run:
    """A labelled run; healthy when nothing is expected of it.

    `clean` is the noiseless healthy loss of each record, `noise` its relative deviation; `planned` are
    the steps of declared changes.
    """

    messages: list[Message]
    clean: Floats
    noise: float
    expected: tuple[Expected, ...] = ()
    planned: tuple[int, ...] = ()
    name: str = ""
    seed: int = 0
    line: int = 0
    steps: int = field(init=False)

    def __post_init__(self) -> None:
        self.steps = len({m["step"] for m in self.messages if m["type"] == "step"})


Maker: TypeAlias = Callable[[np.random.Generator], Run]


class Kind(NamedTuple):
    """A kind of run: how one is made, and the line of the requirements it serves (1 to 4)."""

    make: Maker
    line: int
