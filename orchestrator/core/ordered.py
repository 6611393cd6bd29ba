"""What was decided, and what became of it: the levels that are wished for, the limits that are spent."""

from orchestrator.core.effects import await_effect
from orchestrator.core.facts import (
    Action,
    Decision,
    Outcome,
)  # fmt: skip
from orchestrator.core.orders import left_out
from orchestrator.core.rules import Rules
from orchestrator.core.state import (
    FAILURES,
    Ordered,
    State,
    find,
    move,
    put,
    staged,
)  # fmt: skip


def decision(rules: Rules, state: State, fact: Decision) -> State:
    applied = fact.mode == "act"
    ordered = tuple(Ordered(action, applied) for action in fact.actions)
    state = state._replace(
        actions=(*state.actions, *ordered)[-200:], decisions=fact.number, time=max(state.time, fact.time),
        pending=state.pending + (len(ordered) if applied else 0),
    )  # fmt: skip
    if fact.order:
        state = state._replace(orders=state.orders[1:])
    if applied:
        state = state._replace(approved=tuple(number for number in state.approved if number != fact.incident))
    incident = find(state, fact.incident)
    if incident is not None:
        rung = max(incident.rung, fact.rung)
        incident = staged(incident._replace(rung=rung, frontier=state.frontier), "decided")
        if incident.stage == "acting" and not (applied and ordered):
            incident = staged(incident, "applied")
        state = put(state, incident)._replace(waiting=tuple(w for w in state.waiting if w != incident.id))
    if fact.mode == "propose":
        return state._replace(proposed=(*state.proposed, (fact.incident, fact.time + rules.policy.propose.wait)))
    if not applied:  # a job that ended is not brought back by somebody who only looks on
        ended = incident is not None and (incident.cls in FAILURES or incident.cls == "nonfinite")
        return move(state, "failed", fact.why) if ended else state
    for action in fact.actions:
        state = _wished(rules, state, action)
    return state


def _wished(rules: Rules, state: State, action: Action) -> State:
    levels, counts, verb = state.levels, state.counts, action.verb
    if verb == "lr":
        levels = levels._replace(cuts=action.cuts)
    elif verb == "clip" and action.factor is not None:
        levels = levels._replace(clip_scale=action.factor)
    elif verb == "checkpoint":
        levels = levels._replace(save=levels.save + 1)
    elif verb == "quarantine":
        known = {shard for shard, *_ in levels.quarantine}
        fresh = [shard for shard in action.shards if shard not in known]
        added = left_out(rules, state, fresh, action.incident)
        levels = levels._replace(quarantine=(*levels.quarantine, *added))
        if action.window is not None:
            levels = levels._replace(windows=(*levels.windows, action.window))
    elif verb == "exclude":
        levels = levels._replace(hosts=tuple(dict.fromkeys((*levels.hosts, *action.hosts))))
    elif verb == "override":
        levels = levels._replace(override=action.words)
    elif verb == "reset_moments":
        levels = levels._replace(reset_at=action.to_step if action.to_step is not None else -1)
    elif verb == "rollback":
        counts = counts._replace(rollbacks=(*counts.rollbacks[-63:], state.frontier))
    elif verb == "relaunch":
        kept = tuple(entry for entry in levels.quarantine if entry[2] is None or entry[2] > state.frontier)
        levels = levels._replace(quarantine=kept)
    if verb == "relaunch" and action.incident:
        counts = counts._replace(relaunches=counts.relaunches + 1)
        dense = rules.policy.checkpoints.after_incident
        if dense is not None:
            levels = levels._replace(dense_until=max(levels.dense_until, (action.to_step or 0) + dense.for_))
    elif verb == "stop":
        state = move(state, "stop ordered")
    elif verb == "hold":
        state = move(state, "held", action.why)
    return state._replace(levels=levels, counts=counts)


def outcome(rules: Rules, state: State, fact: Outcome) -> State:
    actions = tuple(
        o._replace(status=fact.status, detail=fact.detail, since=fact.time)
        if o.action.id == fact.action and o.status == "ordered"
        else o
        for o in state.actions
    )
    if actions == state.actions:
        return state
    pending = sum(1 for o in actions if o.applied and o.status == "ordered")
    state = state._replace(actions=actions, pending=pending, time=max(state.time, fact.time))
    if fact.status == "done":
        state = await_effect(state, fact.action)
    done = next(o.action for o in actions if o.action.id == fact.action)
    incident = find(state, done.incident)
    if incident is None or incident.stage != "acting" or state.status in ("stopping", "relaunching"):
        return state
    if any(o.action.incident == incident.id and o.applied and o.status == "ordered" for o in actions):
        return state
    return put(state, staged(incident, "applied"))
