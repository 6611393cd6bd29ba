"""The hands: takes decided actions in their order, applies each, and puts its outcome on the queue as a fact."""

import queue
import threading
from collections.abc import Callable

from orchestrator import registry
from orchestrator.core.facts import Action, Fact, Outcome
from orchestrator.core.rules import World


class Actuator(threading.Thread):
    """Applies one action after the other; `may_act` is asked before each, for an epoch may be lost at any time."""

    def __init__(
        self, world: World, put: Callable[[Fact], None], clock: Callable[[], float], may_act: Callable[[], bool]
    ) -> None:
        super().__init__(name="actuator", daemon=True)
        self._world, self._put, self._clock, self._may_act = world, put, clock, may_act
        self._todo: queue.Queue[Action | None] = queue.Queue()

    def order(self, action: Action) -> None:
        """Append to what is to be done."""
        self._todo.put(action)

    def finish(self) -> None:
        """End after what is already ordered."""
        self._todo.put(None)

    def run(self) -> None:
        """Until `finish`."""
        while (action := self._todo.get()) is not None:
            if not self._may_act():
                return
            self._put(self._applied(action))

    def _applied(self, action: Action) -> Outcome:
        try:
            detail = registry.load("actions", action.verb).apply(action, self._world)
        except Exception as error:  # noqa: BLE001  the failure of an action is a value
            return Outcome(action.id, "failed", f"{type(error).__name__}: {error}", self._clock())
        return Outcome(action.id, "done", str(detail), self._clock())
