"""Override: from the next launch on the job's command ends in other words, such as another precision."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """The words of this rung in the place of an earlier override's; the last of two equal options wins mostly."""
    if not response.words:
        return Refusal("no words are given; write {override: [--dtype=float32]}")
    if situation.state.levels.override == response.words:
        return Refusal(f"the job runs with {' '.join(response.words)} already")
    why = f"the command ends in {' '.join(response.words)}"
    return situation.action("override", why)._replace(words=response.words)


def apply(action: Action, world: World) -> str:
    """The words are part of the levels and written at each launch; here only said."""
    return f"{' '.join(action.words)} from the next launch on"
