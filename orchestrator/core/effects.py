"""Wished and seen are apart: an action that was applied is confirmed or refuted by the metrics.

A learning-rate cut is held against the same steps of the attempt before (or, where those are not known,
against the policy's schedule, or the steps just before it); a clip against the limit reported; a
relaunch against its first step; a quarantine against the shards read.
"""

from typing import Literal, TypeAlias

from orchestrator.core.facts import Action, Checkpoint, Step
from orchestrator.core.policy import Rules
from orchestrator.core.schedule import clip_at, lr_scale, phase_factor, rate
from orchestrator.core.state import Incident, Ordered, State, put

CHECKED = frozenset({"lr", "clip", "relaunch", "quarantine", "checkpoint"})
POINTS = 3  # agreeing records that confirm, disagreeing ones in a row that refute
LATENCY = 2  # records after an order that may still show the old value
PATIENCE = 40  # records without the value: it cannot be verified
SETTLING = 1.0  # seconds after it was applied in which a fast trainer may still not have read its directive
TOLERANCE = 0.02

Verdict: TypeAlias = Literal["right", "wrong", "unknown"]


def await_effect(state: State, action: int) -> State:
    """An action was applied: from now on the metrics are asked for its effect."""
    verb = next((o.action.verb for o in state.actions if o.action.id == action), "record")
    return state._replace(unproved=(*state.unproved, action)) if verb in CHECKED else state


def saved(state: State, checkpoint: Checkpoint) -> State:
    """A complete checkpoint proves the order to save."""
    for ordered in state.actions:
        if ordered.action.id in state.unproved and ordered.action.verb == "checkpoint":
            state = _settle(state, ordered, "confirmed", f"saved at step {checkpoint.step}")
    return state


def check(rules: Rules, state: State, point: Step) -> State:
    """One record more for every action whose effect is not proved yet."""
    for ordered in state.actions:
        if ordered.action.id in state.unproved:
            state = _check(rules, state, ordered, point)
    return state


def _check(rules: Rules, state: State, ordered: Ordered, point: Step) -> State:
    action = ordered.action
    if action.verb == "relaunch":
        return _first_step(state, ordered, point)
    if action.verb == "checkpoint":
        return state
    verdict, detail = _judge(rules, state, action, point)
    if verdict == "wrong" and point.time < ordered.since + SETTLING and point.attempt == action.attempt:
        return state
    seen = ordered.seen + (verdict == "right")
    wrong = ordered.wrong + 1 if verdict == "wrong" else 0 if verdict == "right" else ordered.wrong
    tries = ordered.tries + 1
    ordered = ordered._replace(seen=seen, wrong=wrong, tries=tries)
    needed = 20 if action.verb == "quarantine" else POINTS
    if wrong and (action.verb == "quarantine" or wrong >= POINTS + (LATENCY if seen == 0 else 0)):
        return _settle(state, ordered, "refuted", detail)
    if seen >= needed:
        return _settle(state, ordered, "confirmed", detail)
    if tries >= PATIENCE and seen == 0 and wrong == 0:
        return _settle(state, ordered, "unverifiable", f"the metrics do not tell: {detail}")
    return _replace(state, ordered)


def _judge(rules: Rules, state: State, action: Action, point: Step) -> tuple[Verdict, str]:
    if action.verb == "quarantine":
        if not point.shards:
            return "unknown", "no shard names in the records"
        back = set(action.shards) & set(point.shards)
        return ("wrong", f"{sorted(back)[0]} was read at step {point.step}") if back else ("right", "none of them read")
    if action.verb == "clip":
        wanted = clip_at(rules.policy, point.step, state.levels.clip_scale)
        return _compare("clip", wanted, point.clip, point.step)
    return _compare("lr", _wanted_lr(rules, state, action, point.step), point.lr, point.step)


def _wanted_lr(rules: Rules, state: State, action: Action, step: int) -> float | None:
    """The ordered rate at a step."""
    cut = action.cuts[-1:]
    if before := next((e.lr for e in state.before.between(step, step)), None):
        return before * lr_scale(cut, step) if state.attempt > action.attempt else before
    policy = rules.policy
    if policy.schedule is not None:
        return rate(policy.schedule, step) * phase_factor(policy.phases, step) * lr_scale(state.levels.cuts, step)
    last = next((e.lr for e in reversed(state.history.between(action.step - 5, action.step)) if e.lr), None)
    return None if last is None else last * lr_scale(cut, step)


def _compare(name: str, wanted: float | None, seen: float | None, step: int) -> tuple[Verdict, str]:
    if wanted is None or seen is None:
        return "unknown", f"no {name} to compare at step {step}"
    right = abs(seen - wanted) <= TOLERANCE * abs(wanted)
    return ("right" if right else "wrong"), f"{name} {seen:.4g} at step {step}, ordered {wanted:.4g}"


def _first_step(state: State, ordered: Ordered, point: Step) -> State:
    action = ordered.action
    start = action.to_step or 0
    if point.attempt <= action.attempt or start < point.step <= start + 1:
        detail = f"attempt {point.attempt} began with step {point.step}"
        return _settle(state, ordered, "confirmed", detail) if point.attempt > action.attempt else state
    detail = f"began with step {point.step}, wanted {start + 1}"
    coarse = point.step > start + 1
    return _settle(state, ordered, "unverifiable" if coarse else "refuted", detail)


def _replace(state: State, ordered: Ordered) -> State:
    actions = tuple(ordered if o.action.id == ordered.action.id else o for o in state.actions)
    return state._replace(actions=actions)


def _settle(
    state: State, ordered: Ordered, status: Literal["confirmed", "refuted", "unverifiable"], detail: str
) -> State:
    """The verdict on an effect; a refuted rate or resume is an incident of its own."""
    state = _replace(state, ordered._replace(status=status, detail=detail))
    state = state._replace(unproved=tuple(n for n in state.unproved if n != ordered.action.id))
    if status != "refuted" or ordered.action.verb not in ("lr", "relaunch"):
        return state
    number = state.incidents[-1].id + 1 if state.incidents else 1
    cls: Literal["lr_mismatch", "resume_mismatch"] = "lr_mismatch" if ordered.action.verb == "lr" else "resume_mismatch"
    return put(
        state,
        Incident(
            number, cls, "high", state.attempt, state.step, state.step, state.step, "closed", state.frontier,
            end=state.step, reason=detail,
        ),
    )  # fmt: skip
