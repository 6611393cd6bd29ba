"""What storage and operators say of checkpoints: saves that fail, room on the disk, what is pinned or rejected.

Pure. A failed save never ends a run; a job that died of a full disk is not relaunched before there is room for
one checkpoint; a relaunch whose checkpoint proves broken is planned anew from the next one.
"""

import re
from typing import NamedTuple

from orchestrator.core.facts import Checkpoint, Order
from orchestrator.core.rules import Rules
from orchestrator.core.state import Incident, State, attempt_of, find, put

GONE = 500  # checkpoints that are gone and still told of
ROOM_WAIT = 1800.0  # seconds that a run waits for somebody to make room before it is held
_FULL = re.compile(r"No space left on device|Disk quota exceeded|ENOSPC|EDQUOT|errno 28\b|errno 122\b", re.IGNORECASE)


def judged(state: State, order: Order) -> State:
    """An operator's word on the checkpoints of a step."""
    step = int(order.value or 0)
    pins = tuple(pin for pin in state.pins if pin != step)
    if order.verb != "reject":
        return state._replace(pins=(*pins, step) if order.verb == "pin" else pins)
    why = f"rejected by {order.author}" + (f": {order.why}" if order.why else "")
    rejected = tuple(
        c._replace(state="corrupt", why=why) if c.step == step and c.state == "saved" else c for c in state.checkpoints
    )
    return state._replace(checkpoints=rejected, pins=pins)


def remembered(checkpoints: tuple[Checkpoint, ...]) -> tuple[Checkpoint, ...]:
    """All but the oldest of those that are gone: a run of months removes thousands."""
    gone = [c for c in checkpoints if c.state == "missing"]
    if len(gone) <= GONE:
        return checkpoints
    return tuple(c for c in checkpoints if c is not gone[0])


def save_failed(rules: Rules, state: State, fact: Checkpoint) -> State:
    """A save that met a full disk is an incident of its own, once until a save works again; the run goes on."""
    if not _FULL.search(fact.why) or any(i.cls == "disk_full" and i.live for i in state.incidents):
        return state
    number = state.incidents[-1].id + 1 if state.incidents else 1
    severity, step = rules.policy.failures.disk_full.severity, max(fact.step, state.step)
    reason = f"the save of step {fact.step} failed, training goes on: {fact.why}"
    incident = Incident(number, "disk_full", severity, state.attempt, step, step, step, "probation", state.frontier)
    return put(state, incident._replace(reason=reason))


def save_worked(state: State) -> State:
    """A complete checkpoint: the disk takes them again."""
    for incident in state.incidents[-8:]:
        if incident.cls == "disk_full" and incident.stage == "probation":
            state = put(state, incident._replace(stage="closed", end=incident.end or incident.detected))
    return state


def crowded(state: State) -> str:
    """Why no checkpoint fits, "" when one does or nothing is known."""
    room = state.room
    if room is None or room.free >= room.needed:
        return ""
    return f"the disk is full: {room.free:,} bytes are free, one checkpoint takes {room.needed:,}"


def no_room_until(state: State) -> float | None:
    """While a job that died of a full disk waits for room: until when; None when nothing waits for it."""
    if state.status != "relaunching" or not crowded(state):
        return None
    if not any(i.cls == "disk_full" and i.id in state.waiting for i in state.incidents[-8:]):
        return None
    attempt = attempt_of(state, state.attempt)
    return None if attempt is None or attempt.exited is None else attempt.exited.time + ROOM_WAIT


def failed_start(state: State) -> str:
    """Why the last relaunch could not begin; "" when it did."""
    last = next((o for o in reversed(state.actions) if o.action.verb == "relaunch" and o.applied), None)
    return last.detail if last is not None and last.status == "failed" else ""


class Broken(NamedTuple):
    """A relaunch that could not begin because its checkpoint is broken or gone."""

    incident: Incident
    why: str


def broken_start(state: State) -> Broken | None:
    """The last relaunch, when it failed and the facts say that its checkpoint was the reason."""
    last = next((o for o in reversed(state.actions) if o.action.verb == "relaunch" and o.applied), None)
    if last is None or last.status != "failed" or not last.action.path:
        return None
    bad = next((c for c in state.checkpoints if c.path == last.action.path), None)
    incident = find(state, last.action.incident)
    if incident is None or not incident.rung or bad is None or bad.state not in ("corrupt", "missing"):
        return None
    return Broken(incident, f"the checkpoint of step {bad.step} cannot be loaded ({bad.why})")
