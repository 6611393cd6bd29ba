"""Roll back: the newest healthy checkpoint from before the onset becomes where the run goes on."""

from orchestrator.core.facts import Action
from orchestrator.core.health import targets
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """The target by health, margin and depth; the limit on rollbacks is counted on the frontier."""
    rules, state, incident = situation.rules, situation.state, situation.incident
    limit = rules.policy.limits.rollbacks
    recent = [frontier for frontier in state.counts.rollbacks if frontier > state.frontier - limit.per]
    if len(recent) >= limit.max:
        return Refusal(f"{len(recent)} rollbacks within {limit.per} steps, the policy allows {limit.max}", hold=True)
    before = incident.onset_low - rules.policy.checkpoints.margin
    known = targets(rules, state, before)
    target = known[min(response.depth, len(known)) - 1]
    where = f"the checkpoint of step {target.step}" if target.path else "a fresh start"
    why = f"to {where}, before onset {incident.onset} - margin {rules.policy.checkpoints.margin}: {target.why}"
    return situation.action("rollback", why)._replace(to_step=target.step, path=target.path)


def apply(action: Action, world: World) -> str:
    """Move the layout's own pointers; the relaunch names the checkpoint explicitly all the same."""
    return world.point_to(action.to_step or 0, action.path)
