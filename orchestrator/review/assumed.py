"""Checkpoints that a recording does not tell of: assumed at the cadence of the policy that is replayed."""

from orchestrator.core.facts import Checkpoint, Step
from orchestrator.core.policy import Policy
from orchestrator.core.schedule import switches

KEPT = 256  # assumed checkpoints that are remembered; a rollback farther back begins afresh
FALLBACK = 1000  # steps, where the cadence is in something that the recording does not tell
WHY = "assumed: the recording tells of no checkpoints"


class Cadence:
    """Says after which steps a checkpoint is assumed; `planned` holds all of them."""

    def __init__(self, policy: Policy) -> None:
        every = policy.checkpoints.every
        self._every, self._value = every, every.value
        self.regular = int(every.value) if every.unit == "steps" else FALLBACK
        self._switches = sorted(switches(policy.phases)) if policy.checkpoints.before_phase_switch else []
        self._mark: float | None = None  # of time or tokens at the last one
        self.due = 0  # before this step there is nothing to do
        self.planned: list[int] = []

    def start(self, step: int) -> None:
        """An attempt begins after this step."""
        self._mark = None
        self.due = self._next(step)

    def after(self, point: Step) -> list[int]:
        """The steps up to this record at which a checkpoint is assumed; called once `due` is reached."""
        found = []
        self.due = max(self.due, self._next(point.step - KEPT * self.regular - 1))
        now = {"seconds": point.time, "tokens": point.tokens_seen}.get(self._every.unit)
        if now:
            self._mark = self._mark or now
            if now - self._mark >= self._value or point.step in self._switches:
                self._mark = now
                found.append(point.step)
            self.due = point.step + 1
        while self.due <= point.step:
            found.append(self.due)
            self.due = self._next(self.due)
        self.planned += found
        return found

    def _next(self, step: int) -> int:
        if self._mark is not None:
            return step + 1
        regular = (step // self.regular + 1) * self.regular
        return min([regular, *(switch for switch in self._switches if switch > step)])


def checkpoint(attempt: int, step: int, time: float) -> Checkpoint:
    """An assumed checkpoint as the fact that a trainer's save would have been."""
    return Checkpoint(attempt, step, f"assumed/step-{step}", "saved", WHY, time)
