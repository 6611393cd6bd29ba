"""Clipping that acts on most steps is no guard any more: the clip has become the learning rate.

It says so once when it begins, and again after each further window of it; by itself it opens nothing.
"""

from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.core.facts import Reading, Step
from orchestrator.core.units import Fraction, Positive


class State(NamedTuple):
    """The newest records as bits (1: the norm stood above the limit), how many they are, records until it is said."""

    bits: int = 0
    seen: int = 0
    wait: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipSaturation:
    """Tells when the gradient norm stood above the clip's limit on more than `above` of the newest `points` records.

    >>> detector, state = ClipSaturation(points=4), ClipSaturation().start()
    >>> for step in range(1, 5):
    ...     state, reading = detector.update(state, Step(1, step, grad_norm=3.0, clip=1.0))
    >>> reading.kind, reading.value
    ('context', 1.0)
    """

    above: Fraction = 0.5
    points: Positive = 200

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """Count anew."""
        return State()

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One record more."""
        norm, limit = point.grad_norm, point.clip
        if norm is None or limit is None:
            return state, None
        bits, seen, wait = state
        if not bits and norm <= limit and seen + 1 >= self.points:
            return state, None
        bits = (bits << 1 | (norm > limit)) & ((1 << self.points) - 1)
        if seen + 1 < self.points:
            return State(bits, seen + 1), None
        share = bits.bit_count() / self.points
        if share <= self.above:
            return State(bits, seen), None
        if wait:
            return State(bits, seen, wait - 1), None
        reading = Reading("clip_saturation", "clip", "context", point.step, share, 0.0, self.above)
        return State(bits, seen, self.points), reading


Plugin = ClipSaturation
