"""Cut the learning rate: one more factor in the ledger of cuts, live now or at the next launch."""

from orchestrator.core.facts import Action, Cut
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.schedule import lr_scale
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """The ledger with this cut, counted from where the run goes on; below the floor a person decides."""
    state, factor = situation.state, response.factor
    if factor is None:
        return Refusal("no factor is given")
    back = situation.earlier("rollback")
    step = state.step if back is None or back.to_step is None else back.to_step
    recover = response.recover
    cut = Cut(factor, step, recover.after, recover.over) if recover else Cut(factor, step)
    cuts = (*state.levels.cuts, cut)
    scale, floor = lr_scale(cuts, step), situation.rules.policy.limits.lr_floor
    if scale < floor:
        return Refusal(f"the rate would fall to {scale:.3g} of its plan, below the floor of {floor:.3g}", hold=True)
    why = f"from {lr_scale(state.levels.cuts, step):.3g} to {scale:.3g} of the planned rate"
    return situation.action("lr", why)._replace(cuts=cuts, factor=scale)


def apply(action: Action, world: World) -> str:
    """Tell the running trainer; a launch reads the ledger by itself."""
    return world.direct()
