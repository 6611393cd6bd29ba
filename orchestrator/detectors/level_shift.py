"""A level against the best level so far, at two time-scales: a jump and a slow rise.

Means over blocks of eight points stand for the level; their own spread (from differences of neighbouring
blocks, so that a trend does not widen it) is the yardstick, which makes autocorrelated noise count as
what it is. The reference is the lowest long mean since the last re-basing.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import median
from typing import NamedTuple

from orchestrator.core.facts import Reading, Step
from orchestrator.core.units import Share

BLOCK = 8  # points a block
KEEP = 32  # blocks remembered
LONG = 8  # blocks of the reference and of the slow scale
SHORT = 2  # blocks of the fast scale


class State(NamedTuple):
    """The running block, the newest block means with the steps they began at, the reference."""

    total: float = 0.0
    points: int = 0
    began: int = 0
    blocks: tuple[float, ...] = ()
    begins: tuple[int, ...] = ()
    best: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelShift:
    """Flags when a short or a long mean stands above the best level by `above` and by `sigmas` of its spread."""

    above: Share = 0.005
    sigmas: float = 6.0

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """Learn the level anew."""
        return State()

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One loss more; judged at the end of each block."""
        loss = point.loss
        if loss is None:
            return state, None
        total, points, began, blocks, begins, best = state
        began = point.step if points == 0 else began
        if points + 1 < BLOCK:
            return State(total + loss, points + 1, began, blocks, begins, best), None
        blocks = (*blocks, (total + loss) / BLOCK)[-KEEP:]
        begins = (*begins, began)[-KEEP:]
        if len(blocks) < 2 * LONG:
            return State(0.0, 0, 0, blocks, begins, best), None
        settled = sum(blocks[-2 * LONG : -LONG]) / LONG
        best = settled if best is None else min(best, settled)
        return State(0.0, 0, 0, blocks, begins, best), self._judge(blocks, begins, best, point.step)

    def _judge(self, blocks: tuple[float, ...], begins: tuple[int, ...], best: float, step: int) -> Reading | None:
        differences = [abs(after - before) for before, after in pairwise(blocks)]
        spread = 1.4826 * median(differences) / sqrt(2.0)
        for width in (SHORT, LONG):
            level = sum(blocks[-width:]) / width
            error = spread * sqrt(1.0 / width + 1.0 / LONG)
            limit = best + max(self.above * abs(best), self.sigmas * error)
            if level > limit and min(blocks[-width:]) > best:
                onset = self._onset(blocks, begins, best + 0.5 * (limit - best))
                return Reading(
                    "level_shift", "loss", "level", step, level, best, limit, spread * sqrt(BLOCK), onset=onset
                )
        return None

    def _onset(self, blocks: tuple[float, ...], begins: tuple[int, ...], line: float) -> int:
        """The beginning of the unbroken run of raised blocks at the end."""
        onset = begins[-1]
        for mean, begin in zip(reversed(blocks), reversed(begins), strict=True):
            if mean <= line:
                break
            onset = begin
        return onset


Plugin = LevelShift
