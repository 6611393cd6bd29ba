"""Tighten the gradient clip, live now or at the next launch."""

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.schedule import clip_at
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """The scale of the clip after it; a limit below the floor stays at the floor."""
    rules, state, factor = situation.rules, situation.state, response.factor
    now = clip_at(rules.policy, state.step, state.levels.clip_scale)
    if factor is None or now is None:
        return Refusal("the policy sets no clip")
    floor = rules.policy.limits.clip_floor
    limit = max(now * factor, min(floor, now))
    if limit == now:
        return Refusal(f"the clip is at its floor of {floor:g}")
    scale = state.levels.clip_scale * limit / now
    return situation.action("clip", f"from {now:.3g} to {limit:.3g}")._replace(factor=scale)


def apply(action: Action, world: World) -> str:
    """Tell the running trainer; a launch reads the level by itself."""
    return world.direct()
