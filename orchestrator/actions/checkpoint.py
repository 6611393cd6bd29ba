"""Ask for a checkpoint at the next step."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """Only a running trainer can save."""
    if situation.state.status != "running":
        return Refusal("the job does not run")
    return situation.action("checkpoint", f"for incident {situation.incident.id}")


def apply(action: Action, world: World) -> str:
    """Tell the running trainer; the checkpoint itself is the proof."""
    return world.direct()
