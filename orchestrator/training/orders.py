"""What is to be done at a step, decided where the directives are read and obeyed by every rank alike."""

from typing import NamedTuple

from orchestrator.core.schedule import lr_scale
from orchestrator.training.cadence import Cadence
from orchestrator.training.inbox import Inbox

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

    def orders(self, step: int, ahead: int, tokens: float) -> Orders:
        """The orders to obey after `step + ahead`, which is where they will have reached all ranks."""
        directive = self.inbox.poll()
        reached = step + ahead
        scale = lr_scale(directive.cuts, reached + 1) if directive.cuts else 1.0
        due = self.cadence.due(reached, directive, tokens)
        return Orders(scale, directive.clip_scale, due, STOPS.index(directive.stop))
