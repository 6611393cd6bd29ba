"""What is remembered of the stream of steps: the detectors' states, the old level, what is open now. Pure."""

import math
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from orchestrator.core.facts import Reading
from orchestrator.core.rules import Rules

SpikeClass: TypeAlias = Literal["isolated", "repeated", "persistent", "nonfinite", "rank_local"]
CLASS_RANK: dict[SpikeClass, int] = {"isolated": 0, "repeated": 1, "rank_local": 2, "persistent": 3, "nonfinite": 4}

SETTLE_POINTS = 2  # the first records after a launch are accumulators, not losses


class Excursion(NamedTuple):
    """What is open now: its class so far, where it began and how it goes."""

    cls: SpikeClass
    onset: int
    onset_low: int
    detected: int
    baseline: float
    spread: float
    threshold: float
    evidence: tuple[Reading, ...]
    peak: float | None = None
    peak_step: int = 0
    last_bad: int = 0
    points: int = 0
    quiet: int = 0
    tail: tuple[float, ...] = ()
    rank: int | None = None
    bad_steps: tuple[int, ...] = ()
    skipped: bool = True
    confirmed: bool = False
    excess: float = 0.0  # the confirmed height of a raised level, in units of the loss

    @property
    def height(self) -> float:
        """How far the last points stand above the old level, as a share of it."""
        if not self.tail or self.baseline == 0.0:
            return math.inf if self.cls == "nonfinite" else 0.0
        return (median(self.tail[-max(3, len(self.tail) // 2) :]) - self.baseline) / abs(self.baseline)


class Grace(NamedTuple):
    """After a planned change: until which step a bounded rise above the old level is forgiven."""

    until: int
    points: int
    level: float
    rise: float
    tail: tuple[float, ...] = ()
    used: bool = False  # something was forgiven already
    follows: bool = False  # the level is the one of now while that falls


class Lead(NamedTuple):
    """The newest excursion of the grad norm, or of what else leads: its first reading, last step and records."""

    first: Reading
    last: int
    records: int


class Watch(NamedTuple):
    """All that is remembered of the stream: each detector's state, the level, what is open."""

    detectors: tuple[tuple, ...]  # type: ignore[type-arg]
    open: Excursion | None = None
    level: float | None = None
    last_step: int = 0
    phase: str | None = None
    grace: Grace | None = None
    settle: int = 0
    lead: Lead | None = None
    previous: float | None = None  # the loss of the record before
    rates: tuple[float, float, int] = (0.0, 0.0, 0)  # the rate at the last two marks, and the newest mark's step
    switched: int = 0  # the first step of the phase
    context: tuple[Reading, ...] = ()  # the newest word of each detector that opens nothing


class Change(NamedTuple):
    """What a step changed: an excursion opened, became another class, was confirmed, or closed."""

    kind: Literal["opened", "promoted", "confirmed", "closed"]
    excursion: Excursion


def first_watch(rules: Rules) -> Watch:
    """Before any record."""
    return Watch(tuple(detector.start() for _, detector in rules.detectors))


def resume(watch: Watch) -> Watch:
    """A restart: the old level stays, the first records are not judged, nothing is open."""
    return watch._replace(open=None, settle=SETTLE_POINTS, lead=None, phase=None, previous=None, context=())


def rebase(rules: Rules, watch: Watch) -> Watch:
    """The old level no longer binds."""
    fresh = tuple(detector.rebase(state) for (_, detector), state in zip(rules.detectors, watch.detectors, strict=True))
    return watch._replace(detectors=fresh)


def rescaled(rules: Rules, watch: Watch, factor: float) -> Watch:
    """The same level in another unit: the detectors learn anew."""
    level = None if watch.level is None else watch.level * factor
    return rebase(rules, watch)._replace(level=level, previous=None)
