"""A loss scale that only falls. Overflows are routine: the scaler halves, steps on, and doubles again later.

After start-up so many halvings without one raise between are a collapse. At start-up the scaler looks for its
level and halves many times: there only the bottom of the scale is one.
"""

from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.core.facts import Reading, Step
from orchestrator.core.units import Positive, Steps

BOTTOM = 1.0  # a scale that fell to it scales nothing any more


class State(NamedTuple):
    """Records seen, the newest scale, the one the fall began from and its step, halvings since."""

    seen: int = 0
    scale: float = 0.0
    top: float = 0.0
    began: int = 0
    falls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScale:
    """Flags the `falls`-th halving without a raise and each after it; within `startup`, a fall to the bottom.

    >>> detector, state = LossScale(startup=0), LossScale().start()
    >>> for step in range(1, 7):
    ...     state, reading = detector.update(state, Step(1, step, loss_scale=65536.0 / 2**step))
    >>> reading.kind, reading.detail
    ('fault', 'halved 5 times without a raise, from 3.277e+04 to 1024')
    """

    falls: Positive = 5
    startup: Steps = 100

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """The scale knows nothing of phases."""
        return state

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One record more."""
        scale = point.loss_scale
        if scale is None:
            return state, None
        seen, last, top, began, falls = state
        if scale == last:
            return State(seen + 1, last, top, began, falls), None
        if scale > last:
            return State(seen + 1, scale), None
        falls += 1
        top, began = (top, began) if top else (last, point.step)
        if seen < self.startup and scale > BOTTOM:
            return State(seen + 1, scale, top, began), None
        over = falls >= self.falls or (scale <= BOTTOM and seen < self.startup)
        state = State(seen + 1, scale, top, began, falls)
        return state, self._reading(state, point.step) if over else None

    def _reading(self, state: State, step: int) -> Reading:
        often = f"halved {state.falls} times without a raise" if state.falls >= self.falls else "fell to the bottom"
        detail = f"{often}, from {state.top:.4g} to {state.scale:.4g}"
        return Reading(
            "loss_scale", "loss_scale", "fault", step, state.scale, state.top, 0.0, onset=state.began, detail=detail
        )


Plugin = LossScale
