"""Stop the job: ask at a step boundary, then insist; done when no process of it is left."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """Only what runs can be stopped."""
    if situation.state.status != "running":
        return Refusal("the job does not run")
    return situation.action("stop", situation.incident.reason)


def apply(action: Action, world: World) -> str:
    """End the attempt."""
    return world.stop(action.attempt, action.save)
