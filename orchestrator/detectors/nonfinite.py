"""NaN and Inf in all their masks: the value itself, a 0.0 beside a norm that is not finite, a lost field.

A loss scaler's overflow (the scale is reported, the loss is finite, only the gradients are not) is
routine: it skips the update and halves the scale by itself. A long row of them is not.
"""

from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.core.facts import Reading, Step

OVERFLOWS = 20  # overflow steps in a row that are no routine any more
VANISHED = 2  # records without the loss that always had one


class State(NamedTuple):
    """Whether a loss has been seen, records without it since, overflows in a row."""

    had_loss: bool = False
    without: int = 0
    overflows: int = 0


HEALTHY = State(had_loss=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite:
    """Flags a step with a value that is not finite.

    >>> NonFinite().update(State(), Step(1, 5, nonfinite=("loss",)))[1].detail
    'loss is not finite'
    """

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """Nothing is learned, so nothing is forgotten."""
        return state

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One record more."""
        if not point.nonfinite and point.loss is not None and (point.ranks is None or not point.ranks.nonfinite):
            return HEALTHY, None
        if point.loss_scale is not None and point.nonfinite == ("grad_norm",) and point.loss != 0.0:
            overflows = state.overflows + 1
            if overflows < OVERFLOWS:
                return State(state.had_loss, 0, overflows), None
            return State(state.had_loss, 0, overflows), self._reading(point, f"{overflows} overflow steps in a row")
        if point.nonfinite or (point.ranks is not None and point.ranks.nonfinite):
            return State(state.had_loss), self._reading(point, self._words(point))
        without = state.without + 1 if state.had_loss else 0
        reading = self._reading(point, "the loss is missing while steps advance") if without >= VANISHED else None
        return State(state.had_loss, without), reading

    def _words(self, point: Step) -> str:
        names = " and ".join(point.nonfinite) or "a rank's loss"
        if point.loss == 0.0:
            return f"{names} not finite, the loss masked as 0.0{self._origin(point)}"
        return f"{names} {'is' if len(point.nonfinite) < 2 else 'are'} not finite{self._origin(point)}"

    def _origin(self, point: Step) -> str:
        module = f", first in the output of {point.module}" if point.module else ""
        return module + (f", in the gradients of {', '.join(point.parameters)}" if point.parameters else "")

    def _reading(self, point: Step, detail: str) -> Reading:
        value = point.loss if point.loss is not None else 0.0
        rank = point.ranks.nonfinite[0] if point.ranks is not None and len(point.ranks.nonfinite) == 1 else None
        alone = rank is not None and point.ranks is not None and point.ranks.n > 1
        return Reading(
            "nonfinite",
            "finite",
            "rank" if alone else "nonfinite",
            point.step,
            value,
            0.0,
            0.0,
            rank=rank,
            detail=detail,
        )


Plugin = NonFinite
