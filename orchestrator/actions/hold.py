"""Hold: everything is kept as it is, nothing is relaunched, a person decides."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action:
    """The last rung."""
    incident = situation.incident
    return situation.action("hold", f"{incident.cls} ({incident.severity}): {incident.reason}")


def apply(action: Action, world: World) -> str:
    """Nothing runs any more; the last page tells what to do."""
    return "held for a person"
