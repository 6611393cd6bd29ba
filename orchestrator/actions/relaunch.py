"""Relaunch: a new attempt from the rollback's target, else from the newest complete checkpoint."""

from orchestrator.core.facts import Action
from orchestrator.core.health import newest_complete
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """Where from; the limit on relaunches is refilled by progress only."""
    rules, state = situation.rules, situation.state
    limit = rules.policy.limits.relaunches
    if state.counts.relaunches >= limit.max:
        return Refusal(f"{state.counts.relaunches} relaunches without progress, the policy allows {limit.max}", True)
    back = situation.earlier("rollback")
    if back is not None:
        step, path, why = back.to_step or 0, back.path, "from the rollback's target"
    else:
        step, path, why = newest_complete(rules, state)
    action = situation.action("relaunch", f"attempt {state.attempt + 1} from step {step}: {why}")
    return action._replace(to_step=step, path=path)


def apply(action: Action, world: World) -> str:
    """Start the next attempt; already started is as good."""
    return world.start(action.attempt + 1, action.to_step or 0, action.path)
