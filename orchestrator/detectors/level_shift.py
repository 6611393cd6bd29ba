"""A raised level at two time-scales: a jump against what came just before, a slow rise against the best so far.

Medians of blocks of eight points stand for the level, so a spike of a few points moves none of them. The
yardstick is the blocks' own deviation from their trend, widened by their autocorrelation rho as the mean
of correlated values asks, sqrt((1 + rho) / (1 - rho)): shards of different difficulty count as what they are.
"""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from orchestrator.core.facts import Reading, Step, made
from orchestrator.core.units import Real, Share
from orchestrator.detectors._noise import grain, median

BLOCK = 8  # points a block
WIDTHS = (2, 4, 8, 16)  # newest blocks that are held against the ones before them
LAG = 16  # blocks that the yardstick leaves out, the newest ones
REFERENCE = 16  # blocks of the level before
KEEP = LAG + 2 * REFERENCE
YOUNG = 24  # blocks before anything is judged
SHARE = 0.75  # of the newest blocks must stand above half the limit, and the last one too
LOW_BLOCKS = 2.5  # so many blocks of the old level end the walk back to the onset
GRAINS = 1.5  # steps of a rounded value that are no rise


class State(NamedTuple):
    """The running block, the newest block medians with the steps they began at, the best long level."""

    points: tuple[float, ...] = ()
    began: int = 0
    blocks: tuple[float, ...] = ()
    begins: tuple[int, ...] = ()
    best: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelShift:
    """Flags newest blocks above the level before by `above` and `sigmas` errors, or above the best one by `rise`."""

    above: Share = 0.005
    sigmas: Real = 5.5
    rise: Share = 0.08

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
        points, began, blocks, begins, best = state
        if point.step <= (began or (begins[-1] if begins else -1)):  # a resume: what came after it never was
            kept = bisect_left(begins, point.step)
            points, began, blocks, begins = (), 0, blocks[:kept], begins[:kept]
        if len(points) + 1 < BLOCK:
            return made(State, ((*points, loss), began or point.step, blocks, begins, best)), None
        points = (*points, loss)
        blocks, begins = (*blocks, median(points))[-KEEP:], (*begins, began)[-KEEP:]
        if len(blocks) < YOUNG:
            return State((), 0, blocks, begins, best), None
        if self._calm(blocks, best):
            return State((), 0, blocks, begins, self._best(blocks, best)), None
        rounded = GRAINS * grain(points)
        spread, rho = _yardstick(blocks)
        reading = self._jump(blocks, begins, spread * sqrt((1.0 + rho) / (1.0 - rho)), rounded, point.step)
        best = self._best(blocks, best)
        if reading is None and best is not None:
            reading = self._rise(blocks, begins, best, spread, point.step)
        return State((), 0, blocks, begins, best), reading

    def _calm(self, blocks: tuple[float, ...], best: float | None) -> bool:
        """Whether the newest block stands so low that no reading is possible: the quick way out."""
        newest = blocks[-1]
        if best is not None and newest > best + 0.5 * self.rise * abs(best):
            return False
        base = min(median(blocks[-width - REFERENCE : -width]) for width in (WIDTHS[0], WIDTHS[-1]))
        return newest <= base + 0.5 * self.above * abs(base)

    @staticmethod
    def _best(blocks: tuple[float, ...], best: float | None) -> float | None:
        """The lowest long level so far, with the newest."""
        if len(blocks) < 2 * REFERENCE:
            return best
        level = median(blocks[-REFERENCE:])
        return level if best is None else min(best, level)

    def _jump(
        self, blocks: tuple[float, ...], begins: tuple[int, ...], error: float, rounded: float, step: int
    ) -> Reading | None:
        for width in WIDTHS:
            before = blocks[-width - REFERENCE : -width]
            if len(before) < REFERENCE // 2:
                break
            newest = blocks[-width:]
            base = median(before)
            margin = self.sigmas * error * sqrt(1.0 / width + 1.0 / len(before))
            limit = base + max(self.above * abs(base), margin, rounded)
            level, half = median(newest), 0.5 * (base + limit)
            if level > limit and newest[-1] > half and sum(b > half for b in newest) >= SHARE * width:
                return self._reading(blocks, begins, (level, base, limit, error), step)
        return None

    def _rise(
        self, blocks: tuple[float, ...], begins: tuple[int, ...], best: float, spread: float, step: int
    ) -> Reading | None:
        newest = blocks[-REFERENCE:]
        level = median(newest)
        limit = best + max(self.rise * abs(best), 10.0 * spread / sqrt(REFERENCE))
        if level <= limit or min(newest) <= best:
            return None
        return self._reading(blocks, begins, (level, best, limit, spread), step)

    def _reading(
        self, blocks: tuple[float, ...], begins: tuple[int, ...], numbers: tuple[float, float, float, float], step: int
    ) -> Reading:
        """`numbers` are level, level before, limit and a block's deviation.

        The onset is the likeliest one of a change between two levels: from where on the blocks stand highest above
        the line between them, all in all (Page, 1954).
        """
        level, base, limit, spread = numbers
        line, onset, total, most = 0.5 * (base + limit), begins[-1], 0.0, 0.0
        for block, begin in zip(reversed(blocks), reversed(begins), strict=True):
            total += block - line
            if total > most:
                onset, most = begin, total
            elif total < most - LOW_BLOCKS * (line - base):  # what lies before them is another story
                break
        single = spread * sqrt(BLOCK) / 1.2533  # the deviation of one point, from that of a median of eight
        return Reading("level_shift", "loss", "level", step, level, base, limit, single, onset=onset)


def _yardstick(blocks: tuple[float, ...]) -> tuple[float, float]:
    """The deviation of a block from the trend of the blocks before the newest, and their autocorrelation."""
    settled = blocks[:-LAG] if len(blocks) >= LAG + REFERENCE // 2 else blocks[: max(len(blocks) - 2, 2)]
    half = len(settled) // 2
    early, late = median(settled[:half]), median(settled[half:])
    slope = (late - early) / max(len(settled) - half, 1)
    middle = 0.5 * (len(settled) - 1)
    centre = 0.5 * (early + late)
    residuals = [block - centre - slope * (i - middle) for i, block in enumerate(settled)]
    robust = 1.4826 * median([abs(r) for r in residuals])
    total = sum(r * r for r in residuals)
    spread = max(robust, min(sqrt(total / len(residuals)), 2.0 * robust))  # the first alone is too often too small
    rho = sum(a * b for a, b in pairwise(residuals)) / total if total > 0.0 else 0.0
    # Of so few blocks a correlation of one standard error is none (Bartlett, 1946).
    return spread, min(max(rho - 1.0 / sqrt(len(residuals)), 0.0), 0.9)


Plugin = LevelShift
