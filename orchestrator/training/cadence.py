"""When a checkpoint is due: the policy's cadence, and what the supervisor asks for beyond it.

Steps are counted by core.schedule. A cadence in time or tokens is measured here, so that it holds when no
supervisor is alive; `auto` is Daly's interval from the cost of the last saves and the failures seen so far.
"""

import time
from statistics import median

from orchestrator.core.policy import Policy
from orchestrator.core.schedule import checkpoint_due, daly
from orchestrator.training.inbox import Directive

FIRST_COST = 60.0  # seconds assumed of a save until one was measured
SAVES = 5  # the newest ones, whose median is the cost
MTBF = 24 * 3600.0  # a day between failures, until the supervisor says what it has seen


class Cadence:
    """Decides on rank 0; the other ranks are told."""

    def __init__(self, policy: Policy | None, start: int = 0) -> None:
        self._policy = policy
        self._last, self._answered = start, 0
        self._costs: list[float] = []
        self._tokens, self._since = 0.0, time.monotonic()

    def due(self, step: int, directive: Directive, tokens: float = 0.0) -> bool:
        """Whether to save at `step`; a request of the supervisor is answered once. `tokens` are the step's own."""
        self._tokens += tokens
        if directive.save > self._answered:
            self._answered = directive.save
            return step > self._last
        if self._policy is None:
            return False
        if checkpoint_due(self._policy, step, self._last, directive.dense_until):
            return True
        every = self._policy.checkpoints.every
        if every.unit == "steps":
            return False
        return step > self._last and self._reached(every.unit, every.value, directive.mtbf or MTBF)

    def _reached(self, unit: str, value: float, mtbf: float) -> bool:
        if unit == "tokens":
            return self._tokens >= value
        cost = median(self._costs) if self._costs else FIRST_COST
        wait = value if unit == "seconds" else daly(cost, mtbf)
        return time.monotonic() - self._since >= wait

    def begin(self, step: int) -> None:
        """The run goes on from a checkpoint of `step`, or from 0."""
        self._last, self._tokens, self._since = step, 0.0, time.monotonic()

    def saved(self, step: int, cost: float | None = None) -> None:
        """A checkpoint of `step` stands, written in `cost` seconds."""
        self.begin(step)
        if cost is not None:
            self._costs = [*self._costs[1 - SAVES :], max(cost, 0.001)]
