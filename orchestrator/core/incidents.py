"""From what the stream of steps showed to incidents: opened, explained, joined, answered again, closed."""

from orchestrator.core.facts import (
    Reading,
    Step,
)  # fmt: skip
from orchestrator.core.policy import SEVERITIES, Severity
from orchestrator.core.rules import Rules
from orchestrator.core.state import (
    Incident,
    IncidentClass,
    Read,
    State,
    find,
    put,
    staged,
    want,
)  # fmt: skip
from orchestrator.core.verdict import harm, verdict
from orchestrator.core.watch import Change, Excursion

BEFORE, FROM = 2, 3  # records before an onset, and from it on, whose batches an incident keeps
MOST_BATCHES = 15  # that an incident of several events keeps
EVENT_SIGMAS = 7.0  # so far an excursion must stand out to count towards `repeated`: that is acted on


def changed(rules: Rules, state: State, point: Step, change: Change) -> State:
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
        batches=_batches(state, known, min(now.onset, known.onset)),
    )  # fmt: skip
    if change.kind == "closed" or now.confirmed:
        known = _raised(rules, state, known)
    if change.kind == "promoted":
        known = staged(known, "promoted")
    if change.kind == "confirmed" and known.stage == "open":
        known = staged(known._replace(rung=rung_of(rules, state, known)), "confirmed")
        state, known = _recurrence(state, known)
        state = want(state, known.id)
    if change.kind != "closed":
        return put(state, known)
    healed = known.stage == "open"
    rung = rung_of(rules, state, known) if healed else known.rung
    known = staged(known._replace(end=now.last_bad, rung=rung), "back")
    state = put(state._replace(current=None), known)
    return _count_event(rules, want(state, known.id), known) if healed else state


def _raised(rules: Rules, state: State, known: Incident) -> Incident:
    """The incident one severity higher where it did harm."""
    if not (worse := harm(rules, state, known)):
        return known
    raised = SEVERITIES[min(SEVERITIES.index(known.severity) + 1, len(SEVERITIES) - 1)]
    return known._replace(severity=raised, reason=f"{known.reason}; raised to {raised}: {', '.join(worse)}")


def explained(rules: Rules, state: State, known: tuple[Incident, ...]) -> State:
    """The incidents that are no longer as they were say anew what points to their cause."""
    same = set(map(id, known))
    for incident in state.incidents:
        if id(incident) not in same and incident.merged is None:
            state = put(state, incident._replace(verdict=verdict(rules, state, incident)))
    return state


def fault(state: State, point: Step, seen: Reading) -> State:
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
    return put(state, incident._replace(batches=_batches(state, incident, onset)))


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


def rung_of(rules: Rules, state: State, known: Incident) -> int:
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


def _batches(state: State, known: Incident, onset: int) -> tuple[Read, ...]:
    """The batches around an onset: those that an incident has already, and those that are still remembered."""
    if not state.batches:
        return known.batches
    steps = sorted({read.step: read for read in (*known.batches, *state.batches)}.values())
    before = [read for read in steps if read.step < onset]
    return (*before[-BEFORE:], *[read for read in steps if read.step >= onset][:FROM])


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
            head = head._replace(rung=rung_of(rules, state, head._replace(stage="open")))
            state = _joined(state, head._replace(stage="confirmed"), tuple(near[1:]))
            return want(state, head.id)
    return state


def _joined(state: State, head: Incident, others: tuple[Incident, ...]) -> State:
    """Events that belong to a `repeated` incident: those that made it one, and those that come while it lives."""
    for other in others:
        state = put(state, other._replace(merged=head.id))
        state = state._replace(waiting=tuple(w for w in state.waiting if w != other.id))
        if other.height > head.height:
            head = head._replace(height=other.height, peak=other.peak, peak_step=other.peak_step)
        shards = tuple(dict.fromkeys((*head.shards, *other.shards)))
        batches = (*head.batches, *other.batches)[:MOST_BATCHES]
        head = head._replace(events=head.events + 1, end=other.end, shards=shards, batches=batches)
    return put(state, head)


def probation(rules: Rules, state: State) -> State:
    """An answered incident is over once the run has passed where it was detected, with the level held."""
    for incident in state.incidents[-8:]:
        if incident.stage != "probation":
            continue
        spikes = rules.policy.spikes
        over = incident.detected + spikes.persistent.confirm.for_
        if incident.cls == "repeated":  # the answer has a whole window to show; then as many events are a new one
            over = incident.frontier + spikes.repeated.within
        if state.step >= over:
            state = put(state, staged(incident, "held level"))
    return state
