"""What an operator's word changes at once; what it asks to be done is planned by `operator`."""

from collections.abc import Sequence

from orchestrator.core.facts import (
    Order,
    Room,
)  # fmt: skip
from orchestrator.core.rules import Rules
from orchestrator.core.state import (
    FAILURES,
    Counts,
    LeftOut,
    Silence,
    State,
    find,
    move,
    put,
    want,
)  # fmt: skip
from orchestrator.core.storage import judged
from orchestrator.core.watch import Grace, rebase

SILENCE_RISE = 0.5  # what a silence forgives


def order(rules: Rules, state: State, fact: Order) -> State:
    state = state._replace(time=max(state.time, fact.time))
    said = f"by {fact.author}" + (f": {fact.why}" if fact.why else "")
    match fact.verb:
        case "stop":
            return _stop(state._replace(stop=f"stopped {said}", preempted=False), "stopped")
        case "preempt" if not state.stop:
            return _stop(state._replace(stop=f"preempted {said}", preempted=True), "preempted")
        case "release" if fact.host:
            left = tuple(host for host in state.levels.hosts if host != fact.host)
            return state._replace(levels=state.levels._replace(hosts=left))
        case "release":
            return _released(state, f"released {said}")
        case "quarantine" | "readmit":
            return _sorted_out(rules, state, fact)
        case "approve":
            for number, _ in state.proposed:
                if fact.value in (None, number):
                    state = approved(state, number)
        case "silence" | "expire":
            return _silence(rules, state, fact)
        case "pin" | "unpin" | "reject":
            return judged(state, fact)
        case "lr" | "clip" | "checkpoint" | "rollback":
            return state._replace(orders=(*state.orders, fact))
    return state


def _sorted_out(rules: Rules, state: State, fact: Order) -> State:
    """Shards are left out, or no longer: the next launch brings it in."""
    rest = tuple(entry for entry in state.levels.quarantine if entry[0] not in fact.shards)
    added = left_out(rules, state, fact.shards) if fact.verb == "quarantine" else ()
    return state._replace(levels=state.levels._replace(quarantine=(*rest, *added)))


def left_out(rules: Rules, state: State, shards: Sequence[str], incident: int = 0) -> tuple[LeftOut, ...]:
    """Entries of the quarantine that begin now; without an incident they are an operator's."""
    expires = rules.policy.limits.quarantine.expires
    until = None if expires is None else state.frontier + expires
    return tuple((shard, incident, until) for shard in shards)


def _stop(state: State, happened: str) -> State:
    """Between two attempts nothing runs that could be stopped: the run just ends."""
    idle = state.status == "preempted" or (state.status == "relaunching" and not state.pending)
    return move(state, happened, state.stop) if idle else state


def _released(state: State, why: str) -> State:
    """An operator says that it may go on: the budgets are full again, failures before it are closed."""
    if move(state, "released").status == state.status:
        return state
    for incident in state.incidents:
        if incident.live and incident.cls in FAILURES:
            state = put(state, incident._replace(stage="closed", end=incident.end or state.step))
    counts = Counts(progress=state.counts.progress)
    return move(state._replace(stop="", preempted=False, counts=counts, not_before=0.0), "released", why)


def _silence(rules: Rules, state: State, fact: Order) -> State:
    """A planned disturbance begins (`value` steps long) or ends: the old level no longer binds, or binds again."""
    if fact.verb == "expire":
        known = tuple(s._replace(until=min(s.until, state.step)) for s in state.silences)
        return state._replace(silences=known, watch=state.watch._replace(grace=None))
    until, level = state.step + int(fact.value or 0), state.watch.level
    state = state._replace(silences=(*state.silences[-99:], Silence(until, fact.author, fact.why)))
    if level is None:
        return state
    watch = rebase(rules, state.watch)
    return state._replace(watch=watch._replace(grace=Grace(until, 20, level, SILENCE_RISE)))


def room(rules: Rules, state: State, fact: Room) -> State:
    return state._replace(room=fact, time=max(state.time, fact.time))


def approved(state: State, number: int) -> State:
    """The yes to what was proposed for an incident: it is planned again, to be done."""
    state = state._replace(
        proposed=tuple(p for p in state.proposed if p[0] != number), approved=(*state.approved, number)
    )
    incident = find(state, number)
    if incident is None:
        return state
    if incident.stage in ("acting", "probation"):
        incident = incident._replace(stage="confirmed", rung=max(incident.rung - 1, 0))
    return want(put(state, incident), number)


def waited(rules: Rules, state: State, number: int) -> State:
    """Nobody said yes in time."""
    then = rules.policy.propose.then
    if then == "act":
        return approved(state, number)
    state = state._replace(proposed=tuple(p for p in state.proposed if p[0] != number))
    return state._replace(stop="nobody approved the proposed actions in time") if then == "hold" else state
