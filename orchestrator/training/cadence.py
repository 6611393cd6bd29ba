"""When a checkpoint is due: the policy's cadence, and what the supervisor asks for beyond it.

Steps are counted by core.schedule. A cadence in time or tokens is measured here, so that it holds when no
supervisor is alive; `auto` is Daly's interval from the cost of the last saves and the failures seen so far.
"""

import time
from statistics import median

from orchestrator.core.policy import Policy
from orchestrator.core.schedule import checkpoint_due, daly, next_checkpoint
from orchestrator.core.units import Cadence as Every
from orchestrator.training.inbox import Directive

FIRST_COST = 60.0  # seconds assumed of a save until one was measured
SAVES = 5  # the newest ones, whose median is the cost
MTBF = 24 * 3600.0  # a day between failures, until the supervisor says what it has seen

NEVER = 1 << 62  # a step that is not reached


class Cadence:
    """Decides on rank 0; the other ranks are told. `total` is the run's last step, where it is known."""

    total: int | None = None

    def __init__(self, policy: Policy | None, start: int = 0) -> None:
        every = Every(0.0, "steps") if policy is None else policy.checkpoints.every
        self._policy, self._every, self._unit = policy, every.value, every.unit
        self._last, self._answered = start, 0
        self._costs: list[float] = []
        self._tokens, self._since = 0.0, time.monotonic()

    def due(self, step: int, directive: Directive, tokens: float = 0.0) -> bool:
        """Whether to save at `step`; a request of the supervisor is answered once. `tokens` are the step's own."""
        self._tokens += tokens
        if directive.save > self._answered:
            self._answered = directive.save
            return step > self._last
        return self.planned(step, directive) or (step > self._last and self._reached(directive.mtbf or MTBF))

    def planned(self, step: int, directive: Directive) -> bool:
        """Whether the cadence in steps wants a checkpoint at `step`."""
        return self._policy is not None and checkpoint_due(self._policy, step, self._last, directive.dense_until)

    def after(self, step: int, directive: Directive) -> int:
        """The next step at which the cadence in steps wants a checkpoint, or the run is over."""
        due = None if self._policy is None else next_checkpoint(self._policy, step, directive.dense_until)
        over = NEVER if self.total is None or self.total < step else self.total + 1
        return over if due is None else min(due, over)

    @property
    def measured(self) -> bool:
        """Whether the cadence counts time or tokens, so that no step can be told beforehand."""
        return self._unit != "steps"

    def _reached(self, mtbf: float) -> bool:
        if self._unit == "steps":
            return False
        if self._unit == "tokens":
            return self._tokens >= self._every
        cost = median(self._costs) if self._costs else FIRST_COST
        wait = self._every if self._unit == "seconds" else daly(cost, mtbf)
        return time.monotonic() - self._since >= wait

    def begin(self, step: int) -> None:
        """The run goes on from a checkpoint of `step`, or from 0."""
        self._last, self._tokens, self._since = step, 0.0, time.monotonic()

    def saved(self, step: int, cost: float | None = None) -> None:
        """A checkpoint of `step` stands, written in `cost` seconds."""
        self.begin(step)
        if cost is not None:
            self._costs = [*self._costs[1 - SAVES :], max(cost, 0.001)]
