"""A robust score of one signal: how many robust deviations a point stands above its running median.

The centre is the median of the newest accepted points, the spread comes from the one-step-ahead residuals,
so a falling curve does not widen it. A flagged point enters neither; neither does one far below, until so
many came in a row that they are the new level: the way back from a low stretch is no spike.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from orchestrator.core.facts import Reading, Step, made
from orchestrator.core.units import Real, Share, Steps
from orchestrator.detectors._noise import grain, median, spread_of

CENTRE = 24  # points of the running median
EVERY = 8  # points between two calculations of the limits
RARELY = 4  # so many of them share one calculation of the spread, once the window is full
YOUNG = 24  # below so many points only a ratio that no noise explains is flagged
YOUNG_RATIO, YOUNG_SPREADS, YOUNG_DOUBT = 0.5, 3.0, 0.1
COARSE, COARSE_RATIO = 5, 0.35  # a log with so many steps a point averages, so less is enough
CALM_STEP, CALM_POINTS = 100, 10  # as it is for one that begins in mid-run, where the first wild steps are over
FIRST_RATIO, FIRST_LEAST = 20.0, 0.1  # times a first value of so much, at least, no start of a run is
SPARSE_POINTS = 40  # residuals that are kept where the window holds fewer
LOW_SPREADS, LOW_RATIO = 8.0, 0.1  # so far below is not learned
LOW_POINTS = 64  # unless so many came in a row
LOW_SAID = 5  # so many are said, should something follow
GRAINS = 2.5  # steps of a rounded value that are no rise


class State(NamedTuple):
    """The accepted points, centre, spread and limits as last calculated, flagged points in a row."""

    seen: int = 0
    centre: float = 0.0
    spread: float = 0.0
    low: float = float("-inf")
    high: float = float("inf")
    fresh: tuple[float, ...] = ()
    recent: tuple[float, ...] = ()
    residuals: tuple[float, ...] = ()
    flagged: int = 0
    lows: tuple[float, ...] = ()
    last: int = 0


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
    threshold: Real = 6.0
    window: Steps = 200
    floor: Share = 0.06

    def start(self) -> State:
        """Nothing seen."""
        return State()

    def rebase(self, state: State) -> State:
        """Learn the level anew."""
        return State(last=state.last)

    def update(self, state: State, point: Step) -> tuple[State, Reading | None]:
        """One value more."""
        value = point.loss if self.signal == "loss" else point.grad_norm
        if value is None:
            return state, None
        seen, centre, spread, low, high, fresh, recent, residuals, flagged, lows, _ = state
        if low <= value <= high and len(fresh) < EVERY - 1 and seen >= YOUNG and not flagged and not lows:
            calm = seen + 1, centre, spread, low, high, (*fresh, value), recent, residuals, 0, (), point.step
            return made(State, calm), None
        return self._odd(state, point, value)

    def _odd(self, state: State, point: Step, value: float) -> tuple[State, Reading | None]:
        """A value out of its limits, or one that completes or begins a baseline."""
        gap = abs(point.step - state.last) if state.last > 0 else 1
        high = state.high
        if 0 < state.seen < 3:
            first = FIRST_RATIO * state.centre if state.centre >= FIRST_LEAST else float("inf")
            high = state.centre + COARSE_RATIO * abs(state.centre) if gap >= COARSE else first
        if value > high and state.flagged < self.window:
            return self._flagged(state, point, value)
        if 0 < state.seen < 3 and gap >= COARSE and value > state.centre + YOUNG_DOUBT * abs(state.centre):
            return state._replace(last=point.step), None  # of so few points none is learned that stands out
        if value < state.low:
            lows = (*state.lows, value)
            if len(lows) < LOW_POINTS:
                return state._replace(lows=lows, last=point.step), self._low(state, lows, point.step)
            state = State(seen=len(lows), fresh=lows, spread=state.spread)
        elif state.flagged >= self.window:
            state = State(last=state.last)  # so many in a row are the new level
        seen, centre, spread, low, high, fresh, recent, residuals, *_ = state
        fresh = (*fresh, value)
        if seen >= YOUNG and len(fresh) < EVERY:
            return State(seen + 1, centre, spread, low, high, fresh, recent, residuals, 0, (), point.step), None
        if recent:
            residuals = (*residuals, *[v - centre for v in fresh])[-max(self.window // gap, SPARSE_POINTS) :]
        known = spread if len(residuals) >= self.window and (seen // EVERY) % RARELY else None
        recent = (*recent, *fresh)[-CENTRE:]
        return self._learned(seen + 1, recent, residuals, point.step, gap >= COARSE, known), None

    def _low(self, state: State, lows: tuple[float, ...], step: int) -> Reading | None:
        """A stretch far below is no trouble by itself, but what is read in it is seldom what was meant."""
        if len(lows) != LOW_SAID or self.signal != "loss":
            return None
        detail = f"the loss had stood far below its level, at {lows[-1]:.4g} beside {state.centre:.4g}"
        return Reading("robust_z", "loss", "context", step, lows[-1], state.centre, state.low, detail=detail)

    def _flagged(self, state: State, point: Step, value: float) -> tuple[State, Reading]:
        kind: Literal["high", "leading"] = "high" if self.signal == "loss" else "leading"
        reading = Reading("robust_z", self.signal, kind, point.step, value, state.centre, state.high, state.spread)
        return state._replace(flagged=state.flagged + 1, last=point.step, lows=()), reading

    def _learned(
        self, seen: int, recent: tuple[float, ...], residuals: tuple[float, ...], step: int, coarse: bool,
        known: float | None,
    ) -> State:  # fmt: skip
        """Centre, spread and limits with the fresh points taken in; a `known` spread is not calculated anew."""
        centre = median(recent)
        if known is None:
            spread = spread_of(residuals, [after - before for before, after in pairwise(recent)], not coarse)
        else:
            spread = known
        size, rounded = abs(centre), GRAINS * grain(recent)
        if seen < YOUNG:
            calm = seen >= CALM_POINTS and step > CALM_STEP
            ratio = COARSE_RATIO if coarse or calm else YOUNG_RATIO
            reach = max(recent) - min(recent)
            above = max(YOUNG_SPREADS * self.threshold * spread, ratio * size, 2.0 * reach)
            spread = max(spread, 0.5 * reach)
            low = float("-inf")
        else:
            above = max(self.threshold * spread, self.floor * size)
            low = centre - max(LOW_SPREADS * spread, LOW_RATIO * size)
        return State(seen, centre, spread, low, centre + max(above, rounded), (), recent, residuals, 0, (), step)


Plugin = RobustZ
