"""One rank against its peers and against its own past.

A rank's loss is divided by the median of all ranks; what is odd is a ratio far above that rank's own
usual one. Fast and slow ranks of data, or of pipeline stages, are usual and so never flagged. For many
ranks the record holds a summary: the median, its deviation and the outliers by number.
"""

from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from orchestrator.core.facts import Ranks, Reading, Step
from orchestrator.core.units import Positive, Real, Share

YOUNG = 8  # records before a rank has a past
RATE = 0.05  # of the running mean and deviation of a rank's ratio


class State(NamedTuple):
    """Each rank's usual ratio and its deviation; per rank, odd records in a row."""

    seen: int = 0
    usual: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    odd: tuple[int, ...] = ()
    outlier: int = -1
    run: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPeers:
    """Flags a rank whose ratio to its peers exceeds its usual one by `above` and `sigmas`, `points` times in a row."""

    above: Share = 0.15
    sigmas: Real = 6.0
    points: Positive = 3

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """A change common to all ranks leaves their ratios as they were."""
        return state

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One record more."""
        ranks = point.ranks
        if ranks is None:
            return state, None
        if ranks.loss:
            return self._listed(state, ranks, point.step)
        return self._summarised(state, ranks, point.step) if ranks.median is not None else (state, None)

    def _listed(self, state: State, ranks: Ranks, step: int) -> tuple[State, Reading | None]:
        losses = [loss for loss in ranks.loss if loss is not None]
        middle = median(losses) if losses else 0.0
        if len(losses) < 2 or middle == 0.0:
            return state, None
        ratios = [1.0 if loss is None else loss / middle for loss in ranks.loss]
        if len(state.usual) != len(ratios):
            size = len(ratios)
            state = State(0, (1.0,) * size, (self.above / self.sigmas,) * size, (0,) * size)
        usual, spread, odd = list(state.usual), list(state.spread), [0] * len(ratios)
        for rank, ratio in enumerate(ratios):
            gap = ratio - usual[rank]
            if state.seen >= YOUNG and gap > max(self.above, self.sigmas * spread[rank]):
                odd[rank] = state.odd[rank] + 1
                continue
            usual[rank] += RATE * gap
            spread[rank] += RATE * (abs(gap) * 1.2533 - spread[rank])
        worst = max(range(len(odd)), key=lambda rank: (odd[rank], ratios[rank]))
        state = State(state.seen + 1, tuple(usual), tuple(spread), tuple(odd))
        if odd[worst] < self.points:
            return state, None
        loss = ranks.loss[worst]
        return state, self._reading(step, worst, loss if loss is not None else 0.0, middle, usual[worst] * middle)

    def _summarised(self, state: State, ranks: Ranks, step: int) -> tuple[State, Reading | None]:
        middle = ranks.median or 0.0
        limit = middle + max(self.above * abs(middle), self.sigmas * (ranks.mad or 0.0))
        rank, loss = max(ranks.odd, key=lambda pair: pair[1], default=(-1, 0.0))
        if rank < 0 or loss <= limit:
            return State(), None
        run = state.run + 1 if rank == state.outlier else 1
        state = State(outlier=rank, run=run)
        return state, (self._reading(step, rank, loss, middle, limit) if run >= self.points else None)

    def _reading(self, step: int, rank: int, loss: float, middle: float, limit: float) -> Reading:
        detail = f"rank {rank} at {loss:.4g} beside a median of {middle:.4g}"
        onset = step - self.points + 1
        return Reading("rank_peers", "ranks", "rank", step, loss, middle, limit, onset=onset, rank=rank, detail=detail)


Plugin = RankPeers
