"""A robust score of one signal: how many robust deviations a point stands above its running median.

The centre is the median of the newest accepted points, the spread 1.4826 times the median absolute
deviation of the one-step-ahead residuals (Rousseeuw and Croux, "Alternatives to the Median Absolute
Deviation", 1993), so a falling curve does not widen it. A flagged point enters neither; after `window`
flagged points in a row the new level is accepted.
"""

from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

from orchestrator.core.facts import Reading, Step
from orchestrator.core.units import Share, Steps

CENTRE = 24  # points of the running median
EVERY = 8  # points between two calculations of centre and spread
YOUNG = 24  # below so many points only a ratio that no noise explains is flagged
YOUNG_RATIO = 0.5
YOUNG_SPREADS = 3.0


class State(NamedTuple):
    """The accepted points and their residuals, the centre and spread last calculated, flagged in a row."""

    seen: int = 0
    centre: float = 0.0
    spread: float = 0.0
    recent: tuple[float, ...] = ()
    residuals: tuple[float, ...] = ()
    flagged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustZ:
    """Flags a value above centre + max(threshold x spread, floor x |centre|).

    >>> detector, state = RobustZ(), RobustZ().start()
    >>> for step in range(1, 60):
    ...     state, reading = detector.update(state, Step(1, step, loss=2.0 + 0.01 * (step % 3)))
    >>> detector.update(state, Step(1, 60, loss=2.5))[1].kind
    'high'
    """

    signal: Literal["loss", "grad_norm"] = "loss"
    threshold: float = 6.0
    window: Steps = 200
    floor: Share = 0.03

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """Learn the level anew; the spread is kept as a first guess."""
        return State(0, state.centre, state.spread)

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One value more."""
        value = point.loss if self.signal == "loss" else point.grad_norm
        if value is None:
            return state, None
        seen, centre, spread, recent, residuals, flagged = state
        if seen >= 3:
            limit = self._limit(seen, centre, spread)
            if value > limit and flagged < self.window:
                kind: Literal["high", "leading"] = "high" if self.signal == "loss" else "leading"
                reading = Reading("robust_z", self.signal, kind, point.step, value, centre, limit, spread)
                return State(seen, centre, spread, recent, residuals, flagged + 1), reading
            residuals = (*residuals, value - centre)
        recent = (*recent, value)
        seen += 1
        if seen <= EVERY or seen % EVERY == 0 or flagged >= self.window:
            recent = recent[-CENTRE:] if flagged < self.window else (value,)
            residuals = residuals[-self.window :]
            centre = median(recent)
            if len(residuals) >= EVERY:
                spread = 1.4826 * median(map(abs, residuals))
        return State(seen, centre, spread, recent, residuals, 0), None

    def _limit(self, seen: int, centre: float, spread: float) -> float:
        size = abs(centre)
        if seen < YOUNG:
            return centre + max(YOUNG_SPREADS * self.threshold * spread, YOUNG_RATIO * size)
        return centre + max(self.threshold * spread, self.floor * size, 1e-12)


Plugin = RobustZ
