"""The cadence `auto`, with its numbers: what a save costs and how often the run fails, as seen so far. Pure."""

from statistics import median
from typing import NamedTuple

from orchestrator.core.schedule import daly
from orchestrator.core.state import FAILURES, State

PRIOR = 24 * 3600.0  # before anything was seen: one failure a day, weighing as much as one day watched
SAVES = 5  # saves whose median is the cost


class Interval(NamedTuple):
    """Seconds between two saves, and what they were computed from; `cost` is None until a save was measured."""

    seconds: float | None
    cost: float | None
    mtbf: float
    failures: int
    ran: float

    def words(self) -> str:
        """The numbers for people."""
        seen = f"{self.failures} failure(s) seen in {self.ran / 3600.0:.2f} h, a day's prior: one per"
        rate = f"{seen} {self.mtbf / 3600.0:.2f} h"
        if self.seconds is None or self.cost is None:
            return f"auto: no save measured yet; {rate}"
        return f"auto: every {self.seconds:.0f} s (Young-Daly: a save takes {self.cost:.3g} s; {rate})"


def mtbf(failures: int, ran: float) -> float:
    """The mean seconds between failures after so many in `ran` seconds: the posterior mean rate, inverted.

    >>> mtbf(0, 0.0), mtbf(1, 0.0)
    (86400.0, 43200.0)
    """
    return (ran + PRIOR) / (failures + 1)


def interval(state: State) -> Interval:
    """The best interval by what is known now."""
    failures = sum(i.events for i in state.incidents if i.cls in FAILURES and i.merged is None)
    ran = sum(max((a.exited.time if a.exited else state.time) - a.launched, 0.0) for a in state.attempts)
    costs = [c.seconds for c in state.checkpoints if c.state == "saved" and c.seconds is not None][-SAVES:]
    cost = median(costs) if costs else None
    mean = mtbf(failures, ran)
    return Interval(None if cost is None else daly(max(cost, 0.001), mean), cost, mean, failures, ran)
