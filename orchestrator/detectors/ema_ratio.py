"""The textbook rule: a value so many times its own running mean.

With its defaults it is the rule of metaseq's trainer (ratio 1.5 to an exponential mean of span 9), which does not
learn from what it flags either. As many flagged points in a row as `patience` are the new level. A ratio says
nothing of a mean that is not positive.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from orchestrator.core.facts import Reading, Step
from orchestrator.core.units import Positive, Real
from orchestrator.detectors._noise import value_of


class State(NamedTuple):
    """Accepted points, their running mean, flagged points in a row."""

    seen: int = 0
    mean: float = 0.0
    flagged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmaRatio:
    """Flags a value above `ratio` times the exponential mean of span `span`.

    >>> detector, state = EmaRatio(), EmaRatio().start()
    >>> for step in range(1, 20):
    ...     state, _ = detector.update(state, Step(1, step, loss=2.0))
    >>> detector.update(state, Step(1, 20, loss=3.1))[1].threshold
    3.0
    """

    signal: Literal["loss", "grad_norm"] = "loss"
    ratio: Real = 1.5
    span: Positive = 9
    patience: Positive = 200

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """Learn the level anew."""
        return State()

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One value more."""
        value = value_of(point, self.signal)
        if value is None:
            return state, None
        seen, mean, flagged = state
        if seen < self.span or mean <= 0.0 or value <= self.ratio * mean:
            rate = 2.0 / (self.span + 1.0)
            return State(seen + 1, value if not seen else mean + rate * (value - mean)), None
        if flagged >= self.patience:
            return State(1, value), None
        kind: Literal["high", "leading"] = "high" if self.signal == "loss" else "leading"
        reading = Reading("ema_ratio", self.signal, kind, point.step, value, mean, self.ratio * mean)
        return State(seen, mean, flagged + 1), reading


Plugin = EmaRatio
