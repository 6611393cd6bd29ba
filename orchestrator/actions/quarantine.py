"""Quarantine: the shards read from the onset to the detection are left out from the next launch on.

Where shards have no names and the job's command can leave out steps (`{skip}`), the steps are.
"""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """The suspect shards, within the share of the data that may be left out."""
    state, limit = situation.state, situation.rules.policy.limits.quarantine
    inside = {shard for shard, *_ in state.levels.quarantine}
    suspects = tuple(shard for shard in situation.incident.shards if shard not in inside)
    if not suspects and not situation.incident.shards and state.skips:
        low, high = situation.incident.onset_low, max(situation.incident.detected, state.step)
        return situation.action("quarantine", f"the batches of steps {low}-{high}")._replace(window=(low, high))
    if not suspects:
        return Refusal("the records of the suspect window name no shards")
    if state.shards_total is None:
        return Refusal("the trainer does not say how many shards there are")
    room = int(limit.max_share * state.shards_total) - len(inside)
    if len(suspects) > room:
        share = f"{len(suspects)} shards beside {len(inside)} of {state.shards_total}"
        return Refusal(f"{share} exceed the cap of {100 * limit.max_share:g} %")
    return situation.action("quarantine", f"read in steps of the incident: {', '.join(suspects)}")._replace(
        shards=suspects
    )


def apply(action: Action, world: World) -> str:
    """Write them down; the next launch reads the list."""
    if action.window is not None:
        low, high = action.window
        return f"steps {low}-{high} are left out from the next launch on, by the job's own option"
    return world.exclude(action.shards)
