"""Notify: tell people what happened and what is done about it; nothing waits for them."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action:
    """The incident in a sentence, with the actions planned before this one in the rung."""
    incident = situation.incident
    done = "; ".join(f"{action.verb} {action.why}".strip() for action in situation.draft if action.verb != "record")
    told = f"incident {incident.id}: {incident.cls} ({incident.severity}) from step {incident.onset}: {incident.reason}"
    return situation.action("notify", f"{told}; {done}" if done else told)


def apply(action: Action, world: World) -> str:
    """Hand it to every channel."""
    return world.notify(action)
