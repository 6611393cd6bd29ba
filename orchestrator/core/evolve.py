"""From one fact to the next state. Pure: the same state and fact give the same state, always.

One function a kind of fact; the steps' own road is `_step`, which must stay cheap.
"""

import zlib
from collections.abc import Callable
from typing import Any

from orchestrator.core.classify import Change, Excursion, Grace, observe, rebase, resume
from orchestrator.core.effects import apart, await_effect, check, refused, resumed, saved
from orchestrator.core.facts import (
    Action,
    Announced,
    Checkpoint,
    Decision,
    Ended,
    Eval,
    Exited,
    Fact,
    Launched,
    Order,
    Outcome,
    Reading,
    Room,
    Step,
    Supervised,
    Tick,
)  # fmt: skip
from orchestrator.core.policy import SEVERITIES, Rules, Severity
from orchestrator.core.position import LOOKS, asked
from orchestrator.core.state import (
    FINAL,
    STAGE,
    Attempt,
    Counts,
    Entry,
    History,
    Incident,
    IncidentClass,
    Ordered,
    Silence,
    Snapshot,
    State,
    attempt_of,
    find,
    first,
    hot,
    move,
    put,
    stepped,
)  # fmt: skip
from orchestrator.core.storage import judged, no_room_until, remembered, save_failed, save_worked
from orchestrator.core.verdict import harm, verdict

EVENT_SIGMAS = 7.0  # so far an excursion must stand out to count towards `repeated`: that is acted on
SNAPSHOTS = 64
EVALS = 400
START_LIMIT = 900.0  # seconds that imports, compilation and the first step may take, at least
PACE_FACTOR, PACE_MIN = 10.0, 60.0  # `hang: {after: auto}`: ten times the longest gap seen, never below a minute
BACKOFF, BACKOFF_MAX = 5.0, 300.0  # seconds before the second relaunch for one cause, doubled for each further one
SILENCE_RISE = 0.5  # what a silence forgives


def evolve(rules: Rules, state: State, fact: Fact) -> State:
    """The state after one more fact."""
    return _ROADS[type(fact)](rules, state, fact)


def fold(rules: Rules, facts: list[Fact]) -> State:
    """The state after all facts from the first: how a journal is recovered."""
    state = first(rules)
    for fact in facts:
        state = evolve(rules, state, fact)
    return state


# --- steps -------------------------------------------------------------------------------------------


def _step(rules: Rules, state: State, point: Step) -> State:
    known = state.incidents
    if point.attempt != state.attempt:
        if point.attempt < state.attempt:
            return state
        state = _launched(rules, state, Launched(point.attempt, point.step - 1, "", "", 0, point.time))
    watch, last, frontier, time, moved, pace, history = hot(state)
    step, now = point.step, point.time
    if moved is None:
        moved = now
    elif step <= last:
        return state  # a resumed trainer logs a step twice
    watch, changes = observe(rules, watch, point)
    if now - moved > pace:
        pace = now - moved
    history = history.add(Entry(step, point.lr, point.shards, point.tokens_seen, point.loss))
    state = stepped(
        state,
        (watch, step, max(frontier, step), max(time, now), max(moved, now), pace, history),
    )
    if state.unproved:
        state = check(rules, state, point)
    if state.attempt > 1 and not state.history.chunks:
        state = resumed(rules, state, point)
    if state.looks:
        state = asked(state, point)
    if point.replicas_odd:
        state = apart(rules, state, point)
    for change in changes:
        state = _fault(state, point, change) if isinstance(change, Reading) else _changed(rules, state, point, change)
    if changes:
        state = _explained(rules, state, known)
    return _probation(rules, state) if state.current is None and state.incidents else state


def _changed(rules: Rules, state: State, point: Step, change: Change) -> State:
    """What a change of the open excursion means for its incident."""
    now = change.excursion
    known = find(state, state.current)
    if change.kind == "opened" or known is None:
        known = _opened(rules, state, now)
        state = state._replace(current=known.id)
    cls: IncidentClass = now.cls
    height = _height(now)
    minor = cls == "persistent" and height < rules.policy.spikes.persistent.minor.below
    severity, reason = _severity(rules, now, cls, minor)
    known = known._replace(
        cls=cls, severity=severity, reason=reason, onset=min(now.onset, known.onset), height=height, minor=minor,
        onset_low=min(now.onset_low, known.onset_low), peak=now.peak, peak_step=now.peak_step, rank=now.rank,
        sigmas=_sigmas(now), evidence=now.evidence, skipped=now.cls == "nonfinite" and now.skipped,
        shards=_shards(state, now.onset, point.step),
    )  # fmt: skip
    if change.kind == "closed" or now.confirmed:
        known = _raised(rules, state, known)
    if change.kind == "promoted":
        known = _staged(known, "promoted")
    if change.kind == "confirmed" and known.stage == "open":
        known = _staged(known._replace(rung=_rung(rules, state, known)), "confirmed")
        state, known = _recurrence(state, known)
        state = _want(state, known.id)
    if change.kind != "closed":
        return put(state, known)
    healed = known.stage == "open"
    rung = _rung(rules, state, known) if healed else known.rung
    known = _staged(known._replace(end=now.last_bad, rung=rung), "back")
    state = put(state._replace(current=None), known)
    return _count_event(rules, _want(state, known.id), known) if healed else state


def _raised(rules: Rules, state: State, known: Incident) -> Incident:
    """The incident one severity higher where it did harm."""
    if not (worse := harm(rules, state, known)):
        return known
    raised = SEVERITIES[min(SEVERITIES.index(known.severity) + 1, len(SEVERITIES) - 1)]
    return known._replace(severity=raised, reason=f"{known.reason}; raised to {raised}: {', '.join(worse)}")


def _explained(rules: Rules, state: State, known: tuple[Incident, ...]) -> State:
    """The incidents that are no longer as they were say anew what points to their cause."""
    same = set(map(id, known))
    for incident in state.incidents:
        if id(incident) not in same and incident.merged is None:
            state = put(state, incident._replace(verdict=verdict(rules, state, incident)))
    return state


def _fault(state: State, point: Step, seen: Reading) -> State:
    """What a detector names by itself is an incident of its own class; nothing is done but to say so."""
    cls: IncidentClass = seen.detector  # type: ignore[assignment]
    onset = seen.onset or seen.step
    known = next((i for i in reversed(state.incidents) if i.cls == cls), None)
    if known is not None and (known.attempt, known.onset) == (state.attempt, onset):
        return put(state, known._replace(end=point.step, reason=seen.detail))
    number = state.incidents[-1].id + 1 if state.incidents else 1
    incident = Incident(
        number, cls, "medium", state.attempt, onset, onset, point.step, "closed", state.frontier, end=point.step,
        baseline=seen.baseline, shards=_shards(state, onset, point.step), evidence=(seen,), reason=seen.detail,
    )  # fmt: skip
    return put(state, incident)


def _opened(rules: Rules, state: State, now: Excursion) -> Incident:
    """A new incident; a level that began before the newest raised one ended is that one, a dip between."""
    last = next((i for i in reversed(state.incidents) if i.cls == "persistent" and i.merged is None), None)
    if last is not None and now.cls == "persistent" and last.attempt == state.attempt and now.onset <= (last.end or 0):
        return last._replace(end=None)
    number = state.incidents[-1].id + 1 if state.incidents else 1
    return Incident(
        number, now.cls, "low", state.attempt, now.onset, now.onset_low, now.detected, frontier=state.frontier,
        baseline=now.baseline,
    )  # fmt: skip


def _recurrence(state: State, known: Incident) -> tuple[State, Incident]:
    """A confirmed incident while one of its class is on probation is that one again, one rung higher."""
    again = next((i for i in reversed(state.incidents) if i.stage == "probation" and i.cls == known.cls), None)
    if again is None or known.cls == "repeated":
        return state, known
    state = put(state, known._replace(merged=again.id, stage="closed"))
    known = known._replace(id=again.id, rung=again.rung, events=again.events + 1)
    return state._replace(current=known.id if state.current is not None else None), known


def _rung(rules: Rules, state: State, known: Incident) -> int:
    """Where an incident's ladder stands: it is forgotten `forget` steps after the last incident of its class."""
    forget = getattr(getattr(rules.policy.spikes, known.cls, None), "forget", 0)
    for other in reversed(state.incidents):
        same = other.id != known.id and other.cls == known.cls and other.minor == known.minor
        if same and other.rung and state.frontier - other.frontier < forget:
            return other.rung
    return known.rung if known.stage != "open" else 0


def _height(now: Excursion) -> float:
    if now.cls in ("isolated", "repeated") and now.peak is not None and now.baseline:
        return (now.peak - now.baseline) / abs(now.baseline)
    return min(now.height, 1e9)


def _sigmas(now: Excursion) -> float:
    if now.peak is None:
        return 0.0
    return (now.peak - now.baseline) / now.spread if now.spread > 0.0 else 1e9


def _severity(rules: Rules, now: Excursion, cls: IncidentClass, minor: bool) -> tuple[Severity, str]:
    """The policy's base for the class, moved by what was seen, and why."""
    spikes = rules.policy.spikes
    base: Severity = getattr(spikes, cls).severity
    if cls == "persistent":
        share = f"{100 * now.height:.1f} % above the old level"
        if not now.confirmed:
            return "low", f"{share}, not confirmed yet"
        return (spikes.persistent.minor.severity, f"only {share}") if minor else (base, share)
    if cls == "nonfinite" and now.skipped and not now.confirmed:
        return "low", f"{len(now.bad_steps)} update(s) skipped by the trainer, weights finite"
    if cls == "isolated" and now.evidence[0].kind == "level":
        return "info", "a raised level that came back before it was one"
    if cls == "rank_local":
        return base, f"rank {now.rank} against its peers"
    return base, f"peak {100 * _height(now):.1f} % above the old level" if cls != "nonfinite" else "not finite"


def _shards(state: State, low: int, high: int) -> tuple[str, ...]:
    """The shards read in steps low..high, in the order of reading."""
    entries = state.history.between(low, high)
    return tuple(dict.fromkeys(shard for entry in entries for shard in entry.shards))


def _count_event(rules: Rules, state: State, closed: Incident) -> State:
    """Enough isolated events within the window are one `repeated` incident, the first event's."""
    spike = rules.policy.spikes.repeated
    counts = [(spike.events, spike.within, spike.above)]
    if spike.burst is not None:
        counts.append((spike.burst.events, spike.burst.within, spike.burst.above))
    mine = [i for i in state.incidents if i.cls in ("isolated", "repeated") and i.merged is None]
    head = next((i for i in mine if i.cls == "repeated" and i.stage != "closed"), None)
    if head is not None:
        return _joined(state, head, (closed,))
    sure = [i for i in mine if i.sigmas >= EVENT_SIGMAS]
    for events, within, above in counts:
        near = [i for i in sure if i.height >= above and i.frontier > state.frontier - within and not i.live]
        if closed in near and len(near) >= events:
            head = near[0]._replace(
                cls="repeated", severity=spike.severity, frontier=state.frontier,
                reason=f"{len(near)} events within {within} steps",
            )  # fmt: skip
            head = head._replace(rung=_rung(rules, state, head._replace(stage="open")))
            state = _joined(state, head._replace(stage="confirmed"), tuple(near[1:]))
            return _want(state, head.id)
    return state


def _joined(state: State, head: Incident, others: tuple[Incident, ...]) -> State:
    """Events that belong to a `repeated` incident: those that made it one, and those that come while it lives."""
    for other in others:
        state = put(state, other._replace(merged=head.id))
        state = state._replace(waiting=tuple(w for w in state.waiting if w != other.id))
        if other.height > head.height:
            head = head._replace(height=other.height, peak=other.peak, peak_step=other.peak_step)
        shards = tuple(dict.fromkeys((*head.shards, *other.shards)))
        head = head._replace(events=head.events + 1, end=other.end, shards=shards)
    return put(state, head)


def _probation(rules: Rules, state: State) -> State:
    """An answered incident is over once the run has passed where it was detected, with the level held."""
    for incident in state.incidents[-8:]:
        if incident.stage != "probation":
            continue
        spikes = rules.policy.spikes
        over = incident.detected + spikes.persistent.confirm.for_
        if incident.cls == "repeated":  # the answer has a whole window to show; then as many events are a new one
            over = incident.frontier + spikes.repeated.within
        if state.step >= over:
            state = put(state, _staged(incident, "held level"))
    return state


# --- the run -----------------------------------------------------------------------------------------


def _supervised(rules: Rules, state: State, fact: Supervised) -> State:
    moved = None if state.moved is None else fact.time  # silence while nobody listened is no hang
    state = state._replace(epoch=fact.epoch, time=max(state.time, fact.time), moved=moved)
    if state.status != "preempted":
        return state
    return move(state._replace(stop="", preempted=False), "supervised", f"resumed after: {state.why}")


def adopt(old: Rules, new: Rules, state: State) -> State:
    """The state under another policy: what other detectors remember is no use to the new ones."""
    if old.policy.detectors == new.policy.detectors:
        return state
    return state._replace(watch=first(new).watch, snapshots=(), current=None)


def _launched(rules: Rules, state: State, fact: Launched) -> State:
    if fact.attempt <= state.attempt:
        return state
    source = next((c for c in state.checkpoints if fact.checkpoint and c.path == fact.checkpoint), None)
    parent = source.attempt if source else 0
    snapshot = next(
        (s for s in reversed(state.snapshots) if source and (s.attempt, s.step) == (source.attempt, source.step)), None
    )
    watch = resume(snapshot.watch if snapshot else first(rules).watch if not fact.start_step else state.watch)
    attempt = Attempt(
        fact.attempt, fact.start_step, fact.checkpoint, fact.time, fact.host, fact.pid, parent, fact.start_step
    )
    left = tuple(
        a._replace(left=state.step, reached=max(a.reached, state.step)) if a.number == state.attempt else a
        for a in state.attempts
    )
    state = state._replace(
        watch=watch if fact.attempt > 1 else state.watch, attempt=fact.attempt, step=fact.start_step, moved=None,
        time=max(state.time, fact.time), attempts=(*left, attempt), before=state.history, history=History(),
        looks=LOOKS,
        current=None, why="",
    )  # fmt: skip
    for incident in state.incidents:
        if incident.stage == "acting":
            state = put(state, _staged(incident, "relaunched"))
        elif incident.stage == "open":
            state = put(state, incident._replace(end=incident.end or incident.detected, stage="closed"))
    return move(state, "launched")


def _announced(rules: Rules, state: State, fact: Announced) -> State:
    if fact.attempt > state.attempt:
        state = _launched(rules, state, Launched(fact.attempt, fact.start_step, "", "", 0, fact.time))
    return state._replace(
        total=fact.total_steps or state.total, shards_total=fact.shards_total or state.shards_total, hook=fact.hook,
        time=max(state.time, fact.time), hosts=fact.hosts or state.hosts,
        world_size=fact.world_size or state.world_size,
        skips=fact.skips or state.skips,
    )  # fmt: skip


def _eval(rules: Rules, state: State, fact: Eval) -> State:
    newest = state.incidents[-1] if state.incidents else None
    since = newest and not any(name == fact.name and step >= newest.onset for name, _, step, _ in state.evals)
    state = state._replace(evals=(*state.evals[1 - EVALS :], (fact.name, fact.attempt, fact.step, fact.value)))
    if newest is None or not since or newest.attempt != fact.attempt:
        return state
    return _explained(rules, state, state.incidents[:-1])  # the first evaluation after it tells what it did


def _checkpoint(rules: Rules, state: State, fact: Checkpoint) -> State:
    if any(c.path == fact.path and c.attempt > fact.attempt for c in state.checkpoints):
        return state  # told late: a newer attempt has written it anew
    key = (fact.attempt, fact.step, fact.path)
    others = tuple(c for c in state.checkpoints if (c.attempt, c.step, c.path) != key and c.path != fact.path)
    moved = None if state.moved is None else max(state.moved, fact.time)  # a save is a sign of life
    state = state._replace(checkpoints=remembered((*others, fact)), moved=moved)
    if fact.state != "saved":
        return save_failed(rules, state, fact) if fact.state == "failed" else state
    state = save_worked(saved(state, fact))
    if fact.attempt == state.attempt and fact.step == state.step:
        snapshot = Snapshot(fact.attempt, fact.step, state.watch)
        known = tuple(s for s in state.snapshots if (s.attempt, s.step) != (fact.attempt, fact.step))
        state = state._replace(snapshots=(*known[1 - SNAPSHOTS :], snapshot))
    if fact.step > state.counts.progress:
        fresh = Counts(state.counts.rollbacks, progress=fact.step)
        keep = rules.policy.limits.relaunches.refill == "never"
        state = state._replace(counts=fresh._replace(relaunches=state.counts.relaunches) if keep else fresh)
    return state


def _ended(rules: Rules, state: State, fact: Ended) -> State:
    return _with_attempt(state, fact.attempt, ended=fact)


def _exited(rules: Rules, state: State, fact: Exited) -> State:
    attempt = attempt_of(state, fact.attempt)
    if attempt is None or attempt.exited is not None:
        return state
    state = _with_attempt(state, fact.attempt, exited=fact, reached=state.step)
    if fact.attempt != state.attempt:
        return state._replace(time=max(state.time, fact.time))
    asked = state.status == "stopping" or state.status in FINAL
    comes_back = any(o.action.verb == "relaunch" and o.applied and o.status == "ordered" for o in state.actions)
    state = move(state._replace(time=max(state.time, fact.time)), "exited")
    if comes_back:  # whoever wants it stopped stops the next attempt
        return state
    if _complete(state, attempt) and (not asked or state.stop):
        return move(state, "completed", "the job reached its end")
    if state.stop:
        return move(state, "preempted" if state.preempted else "stopped", state.stop)
    if asked:
        return state
    if fact.cause == "environment":
        return _try_again(rules, state, fact)
    if (answered := refused(rules, state, fact)) is not None:
        return answered
    cause = "hang" if state.hung == fact.attempt else fact.cause
    return _fail(rules, state, cause, fact.why)


def _complete(state: State, attempt: Attempt) -> bool:
    said = attempt.ended is not None and attempt.ended.status == "completed"
    return said or (state.total is not None and state.step >= state.total)


def _with_attempt(state: State, number: int, **what: object) -> State:
    attempts = tuple(
        a._replace(**what)  # type: ignore[arg-type]
        if a.number == number
        else a
        for a in state.attempts
    )
    return state._replace(attempts=attempts)


def _fail(rules: Rules, state: State, cause: str, why: str) -> State:
    """A failure is an incident of its own; the same one on probation is the same incident."""
    counts = dict(state.counts.failures)
    counts[cause] = counts.get(cause, 0) + 1
    state = state._replace(counts=state.counts._replace(failures=tuple(sorted(counts.items()))))
    state = state._replace(not_before=state.time + _backoff(state, counts[cause]))
    failure = getattr(rules.policy.failures, cause, None)
    severity: Severity = failure.severity if failure else "high"
    treated = failure is not None and failure.respond
    again = next((i for i in reversed(state.incidents) if i.cls == cause and i.stage == "probation"), None)
    number = state.incidents[-1].id + 1 if state.incidents else 1
    cls: IncidentClass = cause  # type: ignore[assignment]
    incident = Incident(number, cls, severity, state.attempt, state.step, state.step, state.step)
    if again is not None:
        same = again.onset == state.step and _words(again.reason) == _words(why)
        incident = again._replace(
            attempt=state.attempt, onset=state.step, onset_low=state.step, detected=state.step,
            events=again.events + 1, alike=again.alike + 1 if same else 1,
        )  # fmt: skip
    incident = incident._replace(stage="confirmed", reason=why, frontier=state.frontier, end=None)
    state = _want(put(state, incident), incident.id)
    return state if treated or cause == "hang" else move(state, "failed", f"{cause}: {why}")


def _try_again(rules: Rules, state: State, fact: Exited) -> State:
    """What the surroundings did is no failure of the job: once more after a while, within the one ceiling."""
    spent, limit = state.counts.relaunches + 1, rules.policy.limits.relaunches.max
    state = state._replace(counts=state.counts._replace(relaunches=spent))
    if spent > limit:
        return move(state, "held", f"{fact.why}; {limit} relaunches without progress are spent")
    return state._replace(not_before=state.time + _backoff(state, spent + 1), why=f"once more after: {fact.why}")


def _backoff(state: State, times: int) -> float:
    """Seconds to wait before the relaunch after so many failures; jobs that failed together come back apart."""
    if times < 2:
        return 0.0
    attempt = attempt_of(state, state.attempt)
    salt = zlib.crc32(repr((attempt.launched, attempt.host, attempt.pid) if attempt else times).encode())
    return min(BACKOFF * 2.0 ** (times - 2), BACKOFF_MAX) * (0.5 + 0.5 * salt / 0xFFFFFFFF)


def _words(reason: str) -> str:
    """A reason without its numbers: times and process numbers differ where nothing else does."""
    return "".join(c for c in reason if not c.isdigit())


def _hang_at(rules: Rules, state: State) -> float | None:
    """The moment at which silence becomes a hang."""
    if state.status != "running" or state.hung == state.attempt:
        return None
    after = rules.policy.failures.hang.after
    attempt = attempt_of(state, state.attempt)
    if state.moved is None:
        began = attempt.launched if attempt else state.time
        return began + max(START_LIMIT, 0.0 if after == "auto" else after)
    if after != "auto":
        return state.moved + after
    return state.moved + (max(PACE_MIN, PACE_FACTOR * state.pace) if state.pace else START_LIMIT)


def deadline(rules: Rules, state: State) -> float | None:
    """When the core wants to be woken by a Tick; None when only facts of their own can change anything."""
    times = [until for _, until in state.proposed]
    backoff = state.not_before if state.status == "relaunching" and state.time < state.not_before else None
    times += [at for at in (_hang_at(rules, state), backoff, no_room_until(state)) if at is not None]
    return min(times, default=None)


def _tick(rules: Rules, state: State, fact: Tick) -> State:
    hang = _hang_at(rules, state)
    state = state._replace(time=max(state.time, fact.time))
    for number, until in state.proposed:
        if fact.time >= until:
            state = _waited(rules, state, number)
    if hang is None or fact.time < hang:
        return state
    silent = fact.time - (hang if state.moved is None else state.moved)
    return _fail(rules, state._replace(hung=state.attempt), "hang", f"no step for {silent:.0f} s after {state.step}")


def _order(rules: Rules, state: State, fact: Order) -> State:
    state = state._replace(time=max(state.time, fact.time))
    said = f"by {fact.author}" + (f": {fact.why}" if fact.why else "")
    match fact.verb:
        case "stop":
            return _stop(state._replace(stop=f"stopped {said}", preempted=False), "stopped")
        case "preempt" if not state.stop:
            return _stop(state._replace(stop=f"preempted {said}", preempted=True), "preempted")
        case "release":
            return _released(state, f"released {said}")
        case "approve":
            for number, _ in state.proposed:
                if fact.value in (None, number):
                    state = _approved(state, number)
        case "silence" | "expire":
            return _silence(rules, state, fact)
        case "pin" | "unpin" | "reject":
            return judged(state, fact)
        case "lr" | "clip" | "checkpoint" | "rollback":
            return state._replace(orders=(*state.orders, fact))
    return state


def _stop(state: State, happened: str) -> State:
    """Between two attempts nothing runs that could be stopped: the run just ends."""
    idle = state.status == "preempted" or (state.status == "relaunching" and not state.pending)
    return move(state, happened, state.stop) if idle else state


def _released(state: State, why: str) -> State:
    """An operator says that it may go on: the budgets are full again, failures before it are closed."""
    if move(state, "released").status == state.status:
        return state
    for incident in state.incidents:
        if incident.live and incident.cls in _FAILURES:
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


def _room(rules: Rules, state: State, fact: Room) -> State:
    return state._replace(room=fact, time=max(state.time, fact.time))


def _approved(state: State, number: int) -> State:
    """The yes to what was proposed for an incident: it is planned again, to be done."""
    state = state._replace(
        proposed=tuple(p for p in state.proposed if p[0] != number), approved=(*state.approved, number)
    )
    incident = find(state, number)
    if incident is None:
        return state
    if incident.stage in ("acting", "probation"):
        incident = incident._replace(stage="confirmed", rung=max(incident.rung - 1, 0))
    return _want(put(state, incident), number)


def _waited(rules: Rules, state: State, number: int) -> State:
    """Nobody said yes in time."""
    then = rules.policy.propose.then
    if then == "act":
        return _approved(state, number)
    state = state._replace(proposed=tuple(p for p in state.proposed if p[0] != number))
    return state._replace(stop="nobody approved the proposed actions in time") if then == "hold" else state


# --- decisions and their outcomes --------------------------------------------------------------------


def _decision(rules: Rules, state: State, fact: Decision) -> State:
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
        incident = _staged(incident._replace(rung=rung, frontier=state.frontier), "decided")
        if incident.stage == "acting" and not (applied and ordered):
            incident = _staged(incident, "applied")
        state = put(state, incident)._replace(waiting=tuple(w for w in state.waiting if w != incident.id))
    if fact.mode == "propose":
        return state._replace(proposed=(*state.proposed, (fact.incident, fact.time + rules.policy.propose.wait)))
    if not applied:  # a job that ended is not brought back by somebody who only looks on
        return move(state, "failed", fact.why) if incident and incident.cls in _FAILURES else state
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
        expires = rules.policy.limits.quarantine.expires
        until = None if expires is None else state.frontier + expires
        known = {shard for shard, *_ in levels.quarantine}
        added = tuple((shard, action.incident, until) for shard in action.shards if shard not in known)
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
    elif verb == "relaunch" and action.incident:
        counts = counts._replace(relaunches=counts.relaunches + 1)
        dense = rules.policy.checkpoints.after_incident
        if dense is not None:
            levels = levels._replace(dense_until=max(levels.dense_until, (action.to_step or 0) + dense.for_))
    elif verb == "stop":
        state = move(state, "stop ordered")
    elif verb == "hold":
        state = move(state, "held", action.why)
    return state._replace(levels=levels, counts=counts)


def _outcome(rules: Rules, state: State, fact: Outcome) -> State:
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
    return put(state, _staged(incident, "applied"))


def _staged(incident: Incident, happened: str) -> Incident:
    """The stage table."""
    return incident._replace(stage=STAGE.get((incident.stage, happened), incident.stage))


def _want(state: State, number: int) -> State:
    return state if number in state.waiting else state._replace(waiting=(*state.waiting, number))


_FAILURES = frozenset({"hang", "crash", "oom", "disk_full", "preemption", "host"})
_ROADS: dict[type, Callable[[Rules, State, Any], State]] = {
    Step: _step, Eval: _eval, Checkpoint: _checkpoint, Announced: _announced, Ended: _ended, Launched: _launched,
    Exited: _exited, Tick: _tick, Supervised: _supervised, Order: _order, Decision: _decision, Outcome: _outcome,
    Room: _room,
}  # fmt: skip
