"""Dump: keep the stacks of every rank before the job is ended."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """Only what runs has stacks."""
    if situation.state.status != "running":
        return Refusal("the job does not run")
    return situation.action("dump", situation.incident.reason)


def apply(action: Action, world: World) -> str:
    """Ask every rank for its stacks."""
    return world.dump(action.attempt)
