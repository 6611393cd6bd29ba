"""What an operator's word asks for: the same actions that a policy's rungs make, planned at once, whatever the mode."""

from orchestrator.core.facts import Action, Order
from orchestrator.core.health import targets
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, Rules
from orchestrator.core.state import Incident, Situation, State

WORDS = ("lr", "clip", "checkpoint", "rollback")


def answer(rules: Rules, state: State, order: Order) -> tuple[tuple[Action, ...], str]:
    """The actions of one order, none where it cannot be followed, and why."""
    said = f"{order.verb} ordered by {order.author}" + (f": {order.why}" if order.why else "")
    if order.verb == "rollback":
        return _rollback(rules, state, order, said)
    nobody = Incident(0, "isolated", "info", state.attempt, state.step, state.step, state.step, reason=said)
    response = Response(verb=order.verb, factor=order.value)  # type: ignore[arg-type]
    planned = rules.planners[response.verb](Situation(rules, state, nobody), response)
    if isinstance(planned, Refusal):
        return (), f"{said}; not done: {planned.why}"
    return (planned._replace(why=f"{said}; {planned.why}" if order.value is not None else said),), said


def _rollback(rules: Rules, state: State, order: Order, said: str) -> tuple[tuple[Action, ...], str]:
    """To the complete checkpoint of a named step, else to the newest healthy one."""
    if order.value is None:
        step, path, _ = targets(rules, state, state.step)[0]
    else:
        step = int(order.value)
        named = [c for c in state.checkpoints if c.step == step and c.state == "saved"]
        if not named and step:
            return (), f"{said}; not done: there is no complete checkpoint of step {step}"
        path = named[-1].path if named else ""
    base = Action(0, "stop", 0, state.attempt, state.step, said)
    back = base._replace(verb="rollback", to_step=step, path=path)
    return (base, back, back._replace(verb="relaunch", why=f"attempt {state.attempt + 1} from step {step}")), said
