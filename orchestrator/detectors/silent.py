"""Training that goes on and does nothing: the loss exactly zero, or the learning rate, where it was not before.

A value that fades away is printed as 0.0000 in the end, and a schedule ends at zero: only a fall from a value
that was plainly there, in one record, is flagged, and only once it lasted.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from orchestrator.core.facts import Reading, Step
from orchestrator.core.units import Positive

SHARE = 0.2  # of the highest rate so far: from less than this it may fade to zero
LEAST, LEAST_LR = 0.05, 5e-5  # a loss, or a rate of a single digit, below this may be rounded to zero


class State(NamedTuple):
    """About the newest loss that was not zero, and its zeros since; the same of the rate; the highest rate."""

    loss: float = 0.0
    zeros: int = 0
    lr: float = 0.0
    still: int = 0
    peak: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """Flags from the `points`-th record in a row on those with a loss or a learning rate of exactly zero.

    >>> detector, state = Silent(), Silent().start()
    >>> for step, loss in enumerate((2.0, 2.0, 0.0, 0.0, 0.0), 1):
    ...     state, reading = detector.update(state, Step(1, step, loss=loss))
    >>> reading.detail, reading.onset
    ('the loss is exactly zero, it was 2', 3)
    """

    points: Positive = 3

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """A zero is one in every phase."""
        return state

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One record more."""
        loss, lr = point.loss, point.lr
        known, zeros, rate, still, peak = state
        if loss and known and lr == rate and not zeros and not still and 0.5 < loss / known < 2.0:
            return state, None
        last, rate = loss or known, lr or rate
        if loss is not None:
            zeros = 0 if loss or point.nonfinite else zeros + 1
        if lr is not None:
            still = 0 if lr else still + 1
        after = State(last, zeros, rate, still, max(peak, rate))
        if loss is not None and zeros >= self.points and abs(last) >= LEAST:
            return after, self._reading(point, "loss", last, zeros)
        if lr is not None and still >= self.points and rate >= SHARE * peak > 0.0 and not _rounded(rate):
            return after, self._reading(point, "lr", rate, still)
        return after, None

    def _reading(self, point: Step, signal: str, before: float, records: int) -> Reading:
        what = "the loss is exactly zero" if signal == "loss" else "the learning rate is zero while training goes on"
        onset = max(point.step - records + 1, 1)
        detail = f"{what}, it was {before:.3g}"
        return Reading("silent", signal, "fault", point.step, 0.0, before, 0.0, onset=onset, detail=detail)


def _rounded(rate: float) -> bool:
    """Whether a rate may be the last digit of one that is printed with a few of them."""
    return rate < LEAST_LR and len(Decimal(repr(rate)).normalize().as_tuple().digits) < 2


Plugin = Silent
