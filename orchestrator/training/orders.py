"""What is to be done at a step, decided where the directives are read and obeyed by every rank alike."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from orchestrator.core.schedule import lr_scale, next_scale
from orchestrator.training.cadence import Cadence
from orchestrator.training.inbox import Directive, Inbox

STOPS = ("", "now", "save")
NOW, SAVE = 1, 2


class Orders(NamedTuple):
    """Scales of the next update's rate and clip; whether a checkpoint is due; 0, NOW or SAVE to stop."""

    scale: float = 1.0
    clip_scale: float = 1.0
    due: bool = False
    stop: int = 0


class Desk:
    """Turns the directive in force and the cadence into orders; lives on rank 0."""

    def __init__(self, inbox: Inbox, cadence: Cadence) -> None:
        self.inbox, self.cadence = inbox, cadence
        self._known: Directive | None = None
        self._quiet, self._since = Orders(), 0
        self.until = 0  # the step at which the orders may change, as long as the directive stays

    def orders(self, step: int, ahead: int, told: Iterable[Mapping[str, Any]]) -> Orders:
        """The orders to obey after `step + ahead`, which is where they will have reached all ranks.

        `told` are the trainer's own fields of the steps since the orders before, whose tokens a cadence may count.
        """
        directive = self.inbox.poll()
        reached = step + ahead
        if directive is self._known and self._since <= reached < self.until:
            return self._quiet
        tokens = sum(fields.get("tokens") or 0 for fields in told)
        due = self.cadence.due(reached, directive, tokens)
        orders = Orders(lr_scale(directive.cuts, reached + 1), directive.clip_scale, due, STOPS.index(directive.stop))
        self._known, self._since, self._quiet = directive, reached + 1, orders._replace(due=False)
        self.until = self._change(reached, directive)
        return orders

    def _change(self, step: int, directive: Directive) -> int:
        """The next step whose orders may differ, as long as the directive stays."""
        if self.cadence.measured:
            return step
        until = self.cadence.after(step, directive)
        moves = next_scale(directive.cuts, step + 1)  # the scale obeyed after a step is that of the next update
        return until if moves is None else min(until, moves - 1)
