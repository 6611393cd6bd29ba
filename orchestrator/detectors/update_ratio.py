"""The update's norm as a share of the parameters': an optimizer about to fail takes larger steps first.

Marin's 32B run saw update norms of twice the usual before loss and gradient norm moved. The yardstick is the median of
the newest accepted shares; where no parameter norm is reported, the update norm alone is compared. It only leads:
by itself it opens nothing.
"""

from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.core.facts import Reading, Step
from orchestrator.core.units import Positive, Real
from orchestrator.detectors._noise import median

KEEP = 32  # accepted shares that the median is taken of
EVERY = 8  # points between two calculations of it


class State(NamedTuple):
    """Accepted shares, those since the median was taken, the median, flagged points in a row."""

    recent: tuple[float, ...] = ()
    fresh: tuple[float, ...] = ()
    usual: float = 0.0
    flagged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRatio:
    """Flags an update larger than `above` times the usual one.

    >>> detector, state = UpdateRatio(), UpdateRatio().start()
    >>> for step in range(1, 40):
    ...     state, _ = detector.update(state, Step(1, step, update_norm=0.1, param_norm=100.0))
    >>> detector.update(state, Step(1, 40, update_norm=0.25, param_norm=100.0))[1].kind
    'leading'
    """

    above: Real = 2.0
    patience: Positive = 200

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """Learn the usual step anew."""
        return State()

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One update more."""
        if point.update_norm is None:
            return state, None
        share = point.update_norm / point.param_norm if point.param_norm else point.update_norm
        recent, fresh, usual, flagged = state
        if 0.0 < self.above * usual < share:
            if flagged >= self.patience:
                return State((), (share,)), None
            limit = self.above * usual
            reading = Reading("update_ratio", "update_ratio", "leading", point.step, share, usual, limit)
            return State(recent, fresh, usual, flagged + 1), reading
        fresh = (*fresh, share)
        if len(fresh) < EVERY:
            return State(recent, fresh, usual), None
        recent = (*recent, *fresh)[-KEEP:]
        return State(recent, (), median(recent) if len(recent) >= KEEP // 2 else 0.0), None


Plugin = UpdateRatio
