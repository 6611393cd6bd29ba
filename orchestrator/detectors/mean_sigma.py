"""The textbook rule: a value above the mean by so many standard deviations of a window before it.

With its defaults it is the rule of OLMo's skip-step optimizer (6 sigma of 128 points, from half a window on), but
for one thing: what it flags does not enter the window, so an outlier blinds it for nothing that follows. As many
flagged points in a row as the window holds are the new level.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Literal, NamedTuple

from orchestrator.core.facts import Reading, Step
from orchestrator.core.units import Positive, Real
from orchestrator.detectors._noise import value_of

TINY = 1e-6  # of the mean: the least deviation, for values that do not vary at all


class State(NamedTuple):
    """The accepted points of the window, flagged points in a row."""

    points: tuple[float, ...] = ()
    flagged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSigma:
    """Flags a value above mean + `sigmas` x deviation of the `points` accepted ones before it.

    >>> detector, state = MeanSigma(points=8), MeanSigma().start()
    >>> for step in range(1, 9):
    ...     state, reading = detector.update(state, Step(1, step, loss=2.0 + 0.1 * (step % 2)))
    >>> detector.update(state, Step(1, 9, loss=2.3))[1], detector.update(state, Step(1, 9, loss=2.4))[1].kind
    (None, 'high')
    """

    signal: Literal["loss", "grad_norm"] = "loss"
    sigmas: Real = 6.0
    points: Positive = 128

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
        known = state.points
        if len(known) < max(self.points // 2, 2):
            return State((*known, value)), None
        mean = sum(known) / len(known)
        squares = sum((v - mean) * (v - mean) for v in known) / (len(known) - 1)
        spread = max(sqrt(squares), TINY * abs(mean))
        limit = mean + self.sigmas * spread
        if value <= limit:
            return State((*known, value)[-self.points :]), None
        if state.flagged >= self.points:
            return State((value,)), None
        kind: Literal["high", "leading"] = "high" if self.signal == "loss" else "leading"
        reading = Reading("mean_sigma", self.signal, kind, point.step, value, mean, limit, spread)
        return State(known, state.flagged + 1), reading


Plugin = MeanSigma
