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
        self.due = step + 1 if self._every.unit in ("seconds", "tokens") else self._next(step)

    def after(self, point: Step) -> list[int]:
        """The steps up to this record at which a checkpoint is assumed; called once `due` is reached."""
        now = {"seconds": point.time, "tokens": point.tokens_seen}.get(self._every.unit)
        found = self._measured(point.step, now) if now else self._counted(point.step)
        self.planned += found
        return found

    def _measured(self, step: int, now: float) -> list[int]:
        """By the recorded clock or tokens: whether so much has passed since the last one."""
        self.due = step + 1
        if self._mark is None:
            self._mark = now
        if now - self._mark < self._value and step not in self._switches:
            return []
        self._mark = now
        return [step]

    def _counted(self, step: int) -> list[int]:
        """By steps, also where the recording does not tell what the cadence counts."""
        found = []
        self.due = self._next(max(self.due - 1, step - KEPT * self.regular))
        while self.due <= step:
            found.append(self.due)
            self.due = self._next(self.due)
        return found

    def _next(self, step: int) -> int:
        regular = (step // self.regular + 1) * self.regular
        return min([regular, *(switch for switch in self._switches if switch > step)])


def checkpoint(attempt: int, step: int, time: float) -> Checkpoint:
    """An assumed checkpoint as the fact that a trainer's save would have been."""
    return Checkpoint(attempt, step, f"assumed/step-{step}", "saved", WHY, time)
