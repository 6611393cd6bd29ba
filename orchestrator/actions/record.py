"""Record: the incident, its numbers and the data read in it stand in the journal; nothing else is done."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action:
    """Names the shards that were read in the incident's window."""
    return situation.action("record", situation.incident.reason)._replace(shards=situation.incident.shards)


def apply(action: Action, world: World) -> str:
    """The decision itself is the record."""
    return "recorded" + (f" with {len(action.shards)} shard(s)" if action.shards else "")
