"""Wished and seen are apart: an action that was applied is confirmed or refuted by the metrics.

A learning-rate cut is held against the same steps of the attempt before (or, where those are not known,
against the policy's schedule, or the steps just before it); a clip against the limit reported; a
relaunch against its first step; a quarantine against the shards read; every rate, where the policy has a
schedule, against that.
"""

import re
from typing import Literal, TypeAlias

from orchestrator.core.facts import Action, Checkpoint, Exited, Step
from orchestrator.core.policy import Severity
from orchestrator.core.rules import Rules
from orchestrator.core.schedule import clip_at, lr_scale, phase_factor, rate
from orchestrator.core.state import Incident, IncidentClass, Ordered, State, put

# What leaves no mark in a record: only the trainer's own word could confirm it.
UNSEEN = {
    "override": "nothing in the records tells of the job's other words",
    "reset_moments": "the trainer does not say that it left the moments behind",
}
CHECKED = frozenset({"lr", "clip", "relaunch", "quarantine", "checkpoint", *UNSEEN})
POINTS = 3  # agreeing records that confirm, disagreeing ones in a row that refute
ABSENT = 10  # records in a row that do not hold the value at all: they never will
GUARDED = 20  # records after which a confirmed rate is no longer watched
LATENCY = 2  # records after an order that may still show the old value
PATIENCE = 40  # records without the value: it cannot be verified
SETTLING = 1.0  # seconds after it was applied in which a fast trainer may still not have read its directive
TOLERANCE = 0.02
OFF = 0.05  # a rate farther from the plan than this, at its step and the NEAR ones around it, is another's
NEAR, OFF_RECORDS = 2, 20  # so many records in a row

Verdict: TypeAlias = Literal["right", "wrong", "unknown"]
Status: TypeAlias = Literal["confirmed", "refuted", "unverifiable"]
_RATE = re.compile(r"learning.?rate|\blr\b", re.IGNORECASE)


def await_effect(state: State, action: int) -> State:
    """An action was applied: from now on the metrics are asked for its effect."""
    verb = next((o.action.verb for o in state.actions if o.action.id == action), "record")
    return state._replace(unproved=(*state.unproved, action)) if verb in CHECKED else state


def saved(state: State, checkpoint: Checkpoint) -> State:
    """A complete checkpoint proves the order to save."""
    return said(state, "checkpoint", f"saved at step {checkpoint.step}")


def said(state: State, verb: str, detail: str) -> State:
    """The trainer's own word that an action of this verb had its effect."""
    for ordered in state.actions:
        if ordered.action.id in state.unproved and ordered.action.verb == verb:
            state = _settle(state, ordered, "confirmed", detail)
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
        return _first_step(rules, state, ordered, point)
    if action.verb == "checkpoint":
        return state
    if action.verb in UNSEEN:
        late = point.attempt > action.attempt
        return _settle(state, ordered, "unverifiable", UNSEEN[action.verb]) if late else state
    verdict, detail = _judge(rules, state, action, point)
    if verdict == "wrong" and point.time < ordered.since + SETTLING and point.attempt == action.attempt:
        return state
    ordered = _counted(ordered, verdict)
    needed = 20 if action.verb == "quarantine" else POINTS
    strict = action.verb == "quarantine" or ordered.wrong >= POINTS + (LATENCY if ordered.seen == 0 else 0)
    if ordered.wrong and strict:
        back = "; it was right before" if ordered.seen else ""
        return _refuted(rules, state, ordered, detail + back)
    if ordered.seen >= needed:
        return _confirmed(state, ordered, detail)
    if ordered.seen == 0 and ordered.wrong == 0 and (ordered.absent >= ABSENT or ordered.tries >= PATIENCE):
        return _settle(state, ordered, "unverifiable", f"the metrics do not tell: {detail}")
    return _replace(state, ordered)


def _counted(ordered: Ordered, verdict: Verdict) -> Ordered:
    return ordered._replace(
        seen=ordered.seen + (verdict == "right"),
        wrong=ordered.wrong + 1 if verdict == "wrong" else 0 if verdict == "right" else ordered.wrong,
        tries=ordered.tries + 1,
        absent=ordered.absent + 1 if verdict == "unknown" else 0,
    )


def _confirmed(state: State, ordered: Ordered, detail: str) -> State:
    """A rate stays watched for a while: some trainers bring the old one back on the second line."""
    newest = max(o.action.id for o in state.actions if o.action.verb == ordered.action.verb)
    if ordered.action.verb != "lr" or ordered.tries >= GUARDED or newest != ordered.action.id:
        return _settle(state, ordered, "confirmed", detail)
    known = ordered.detail if ordered.status == "confirmed" else detail
    return _replace(state, ordered._replace(status="confirmed", detail=known))


def _judge(rules: Rules, state: State, action: Action, point: Step) -> tuple[Verdict, str]:
    if action.verb == "quarantine":
        if not point.shards:
            return "unknown", "no shard names in the records"
        back = set(action.shards) & set(point.shards)
        return ("wrong", f"{sorted(back)[0]} was read at step {point.step}") if back else ("right", "none of them read")
    if action.verb == "clip":
        wanted = clip_at(rules.policy, point.step, state.levels.clip_scale)
        if rules.policy.clip.adaptive is not None and wanted is not None and point.clip is not None:
            wanted = min(wanted, point.clip)  # the adaptive limit may be lower still
        return _compare("clip", wanted, point.clip, point.step)
    return _compare("lr", _wanted_lr(rules, state, action, point.step), point.lr, point.step)


def _wanted_lr(rules: Rules, state: State, action: Action, step: int) -> float | None:
    """The ordered rate at a step."""
    cut = action.cuts[-1:]
    since = state.attempt - action.attempt  # launches since the cut; the first one after it brings it in
    if since and (before := next((e.lr for e in state.before.between(step, step)), None)):
        return before * lr_scale(cut, step) if since == 1 else before
    policy = rules.policy
    if policy.schedule is not None:
        return _scheduled(rules, state, step)
    if since:
        return None
    last = next((e.lr for e in reversed(state.history.between(action.step - 5, action.step)) if e.lr), None)
    return None if last is None else last * lr_scale(cut, step)


def _compare(name: str, wanted: float | None, seen: float | None, step: int) -> tuple[Verdict, str]:
    if wanted is None or seen is None:
        return "unknown", f"no {name} to compare at step {step}"
    right = abs(seen - wanted) <= TOLERANCE * abs(wanted)
    return ("right" if right else "wrong"), f"{name} {seen:.4g} at step {step}, ordered {wanted:.4g}"


def _first_step(rules: Rules, state: State, ordered: Ordered, point: Step) -> State:
    """The relaunch's first record is the step after its checkpoint, or the checkpoint's own where steps begin at 0."""
    action = ordered.action
    start = action.to_step or 0
    if point.attempt <= action.attempt or start <= point.step <= start + 1:
        detail = f"attempt {point.attempt} began with step {point.step}"
        return _settle(state, ordered, "confirmed", detail) if point.attempt > action.attempt else state
    detail = f"began with step {point.step}, wanted {start + 1}"
    if point.step > start + 1:  # a coarse log
        return _settle(state, ordered, "unverifiable", detail)
    return _refuted(rules, state, ordered, detail)


def refused(rules: Rules, state: State, fact: Exited) -> State | None:
    """The state when a relaunch died before its first step over the rate that we gave it; None when it did not.

    Our own action is what the trainer cannot bear: trying the same again would end the same.
    """
    stepped = bool(state.history.tail or state.history.chunks)
    cut = next((o for o in state.actions if o.action.id in state.unproved and o.action.verb == "lr"), None)
    if stepped or cut is None or cut.action.attempt >= fact.attempt or not _RATE.search(fact.why):
        return None
    detail = (
        f"the trainer refuses the new rate: {fact.why}; its command needs the option that lets arguments win over "
        "the checkpoint (--override-opt-param-scheduler in Megatron)"
    )
    return _refuted(rules, state, cut, detail)


def followed(rules: Rules, state: State, point: Step) -> State:
    """One record more of a run whose policy has a schedule: a rate that is not the planned one is told, once."""
    cuts = [o for o in state.actions if o.action.verb == "lr"]
    moving = any(o.status == "ordered" or o.action.id in state.unproved for o in cuts)
    if point.lr is None or moving or state.status != "running":
        return state
    wanted = _scheduled(rules, state, point.step)
    if abs(point.lr - wanted) <= OFF * wanted or _beside(rules, state, point.lr, point.step):
        return state._replace(off=0) if state.off else state
    state = state._replace(off=state.off + 1)
    if state.off != OFF_RECORDS or any(i.cls == "lr_mismatch" and i.attempt == state.attempt for i in state.incidents):
        return state
    said = f"the schedule says {wanted:.4g}, and so for {OFF_RECORDS} records"
    return alarm(state, "lr_mismatch", "low", f"the rate is {point.lr:.4g} at step {point.step}, {said}")


def _beside(rules: Rules, state: State, lr: float, step: int) -> bool:
    """Whether it is the rate of a step nearby: trainers differ in which one they tell."""
    near = [_scheduled(rules, state, other) for other in range(max(step - NEAR, 1), step + NEAR + 1)]
    return (1.0 - OFF) * min(near) <= lr <= (1.0 + OFF) * max(near)


def _scheduled(rules: Rules, state: State, step: int) -> float:
    policy = rules.policy
    own = 1.0 if policy.schedule is None else rate(policy.schedule, step)
    return own * phase_factor(policy.phases, step) * lr_scale(state.levels.cuts, step)


# --- verdicts --------------------------------------------------------------------------------------------


def _replace(state: State, ordered: Ordered) -> State:
    actions = tuple(ordered if o.action.id == ordered.action.id else o for o in state.actions)
    return state._replace(actions=actions)


def _settle(state: State, ordered: Ordered, status: Status, detail: str) -> State:
    """The verdict on an effect."""
    state = _replace(state, ordered._replace(status=status, detail=detail))
    return state._replace(unproved=tuple(n for n in state.unproved if n != ordered.action.id))


def _refuted(rules: Rules, state: State, ordered: Ordered, detail: str) -> State:
    """A refuted rate or resume is an incident of its own, answered by the policy."""
    state = _settle(state, ordered, "refuted", detail)
    if ordered.action.verb not in ("lr", "relaunch"):
        return state
    cls: IncidentClass = "lr_mismatch" if ordered.action.verb == "lr" else "resume_mismatch"
    severity: Severity = getattr(rules.policy.failures, cls).severity
    return answered(alarm(state, cls, severity, detail))


def apart(rules: Rules, state: State, point: Step) -> State:
    """Replicas that hold other weights than their peers, told once: the incident stays until the next attempt."""
    rank = point.replicas_odd[0]
    if any(i.cls == "rank_local" and i.rank == rank and i.attempt == state.attempt for i in state.incidents):
        return state
    named = ", ".join(map(str, point.replicas_odd))
    detail = f"the weights of rank(s) {named} are no longer those of their replicas"
    state = alarm(state, "rank_local", rules.policy.spikes.rank_local.severity, detail)
    return answered(put(state, state.incidents[-1]._replace(rank=rank)))


def alarm(state: State, cls: IncidentClass, severity: Severity, detail: str) -> State:
    """An incident that is over when it is seen."""
    number = state.incidents[-1].id + 1 if state.incidents else 1
    incident = Incident(
        number, cls, severity, state.attempt, state.step, state.step, state.step, "closed", state.frontier,
        end=state.step, reason=detail,
    )  # fmt: skip
    return put(state, incident)


def answered(state: State) -> State:
    """The newest incident wants the policy's answer."""
    incident = state.incidents[-1]
    return put(state, incident._replace(stage="confirmed"))._replace(waiting=(*state.waiting, incident.id))
