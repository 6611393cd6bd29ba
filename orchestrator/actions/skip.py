"""Skip: the trainer's guard dropped the update of a step that was not finite; the run goes on."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """Only an update that the trainer itself can drop is skipped."""
    if not situation.incident.skipped:
        return Refusal("this trainer cannot skip an update")
    return situation.action("skip", situation.incident.reason)._replace(shards=situation.incident.shards)


def apply(action: Action, world: World) -> str:
    """The guard acted before the update; there is nothing left to do."""
    return "the update was dropped before it reached the weights"
