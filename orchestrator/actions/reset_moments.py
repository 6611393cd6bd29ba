"""Reset moments: the optimizer begins anew at the checkpoint that the run goes back to, the weights stay."""

from orchestrator.core.facts import Action
from orchestrator.core.health import newest_complete
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Situation


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """At the rollback's target, else at the newest checkpoint; whenever the run resumes from that very one."""
    back = situation.earlier("rollback")
    step = back.to_step if back is not None else newest_complete(situation.rules, situation.state).step
    if not step:
        return Refusal("a fresh start has no moments")
    return situation.action("reset_moments", f"of the checkpoint of step {step}")._replace(to_step=step)


def apply(action: Action, world: World) -> str:
    """The step is part of the levels and known at each launch; here only said."""
    return f"a resume from step {action.to_step} leaves the optimizer's moments behind"
