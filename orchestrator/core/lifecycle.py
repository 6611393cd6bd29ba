"""The run and its attempts: launched, heard of, saved, silent, ended; and what a failure means."""

import zlib

from orchestrator.core.effects import refused, said, saved
from orchestrator.core.facts import (
    Announced,
    Checkpoint,
    Ended,
    Eval,
    Exited,
    Launched,
    Supervised,
    Tick,
)  # fmt: skip
from orchestrator.core.incidents import explained, rung_of
from orchestrator.core.orders import waited
from orchestrator.core.policy import Severity
from orchestrator.core.position import LOOKS
from orchestrator.core.rules import Rules
from orchestrator.core.state import (
    FAILURES,
    FINAL,
    Attempt,
    Counts,
    History,
    Incident,
    IncidentClass,
    Snapshot,
    State,
    attempt_of,
    first,
    move,
    put,
    staged,
    want,
)  # fmt: skip
from orchestrator.core.storage import no_room_until, remembered, save_failed, save_worked
from orchestrator.core.watch import resume

SNAPSHOTS = 64
EVALS = 400
START_LIMIT = 900.0  # seconds that imports, compilation and the first step may take, at least
PACE_FACTOR, PACE_MIN = 10.0, 60.0  # `hang: {after: auto}`: ten times the longest gap seen, never below a minute
BACKOFF, BACKOFF_MAX = 5.0, 300.0  # seconds before the second relaunch for one cause, doubled for each further one


def supervised(rules: Rules, state: State, fact: Supervised) -> State:
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


def launched(rules: Rules, state: State, fact: Launched) -> State:
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
        looks=LOOKS, batches=(),
        current=None, why="",
    )  # fmt: skip
    for incident in state.incidents:
        if incident.stage == "acting":
            state = put(state, staged(incident, "relaunched"))
        elif incident.stage == "open" or _left_behind(state, incident, fact):
            cut = incident.cls not in FAILURES
            state = put(state, incident._replace(end=incident.end or incident.detected, stage="closed", cut=cut))
            state = state._replace(waiting=tuple(number for number in state.waiting if number != incident.id))
    return move(state, "launched")


def _left_behind(state: State, incident: Incident, fact: Launched) -> bool:
    """Whether a spike that came before the job was ended for another one, and has no answer yet, needs one no more."""
    unanswered = incident.stage == "confirmed" and incident.id in state.waiting and incident.cls not in FAILURES
    return unanswered and incident.attempt < fact.attempt and fact.start_step < incident.onset_low


def announced(rules: Rules, state: State, fact: Announced) -> State:
    if fact.attempt > state.attempt:
        state = launched(rules, state, Launched(fact.attempt, fact.start_step, "", "", 0, fact.time))
    if fact.reset:
        state = said(state, "reset_moments", f"attempt {fact.attempt} says so")
    return state._replace(
        total=fact.total_steps or state.total, shards_total=fact.shards_total or state.shards_total, hook=fact.hook,
        time=max(state.time, fact.time), hosts=fact.hosts or state.hosts,
        world_size=fact.world_size or state.world_size,
        skips=fact.skips or state.skips,
    )  # fmt: skip


def evaluated(rules: Rules, state: State, fact: Eval) -> State:
    newest = state.incidents[-1] if state.incidents else None
    since = newest and not any(name == fact.name and step >= newest.onset for name, _, step, _ in state.evals)
    state = state._replace(evals=(*state.evals[1 - EVALS :], (fact.name, fact.attempt, fact.step, fact.value)))
    if newest is None or not since or newest.attempt != fact.attempt:
        return state
    return explained(rules, state, state.incidents[:-1])  # the first evaluation after it tells what it did


def checkpoint_seen(rules: Rules, state: State, fact: Checkpoint) -> State:
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


def ended(rules: Rules, state: State, fact: Ended) -> State:
    return _with_attempt(state, fact.attempt, ended=fact)


def exited(rules: Rules, state: State, fact: Exited) -> State:
    attempt = attempt_of(state, fact.attempt)
    if attempt is None or attempt.exited is not None:
        return state
    state = _with_attempt(state, fact.attempt, exited=fact, reached=state.step)
    if fact.attempt != state.attempt:
        return state._replace(time=max(state.time, fact.time))
    asked = state.status == "stopping" or state.status in FINAL
    ordered = [o.action for o in state.actions if o.applied and o.status == "ordered"]
    # Not the one that began this very attempt, whose outcome may be told later than the attempt's end.
    comes_back = any(action.verb == "relaunch" and action.attempt >= fact.attempt for action in ordered)
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
    if fact.cause == "numeric":
        return _gave_up(rules, state, fact)
    if (answered := refused(rules, state, fact)) is not None:
        return answered
    cause = "hang" if state.hung == fact.attempt else fact.cause
    return fail(rules, state, cause, fact.why)


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


def fail(rules: Rules, state: State, cause: str, why: str) -> State:
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
    cls: IncidentClass = cause if cause in FAILURES else "crash"  # type: ignore[assignment]
    incident = Incident(number, cls, severity, state.attempt, state.step, state.step, state.step)
    if again is not None:
        same = again.onset == state.step and _words(again.reason) == _words(why)
        incident = again._replace(
            attempt=state.attempt, onset=state.step, onset_low=state.step, detected=state.step,
            events=again.events + 1, alike=again.alike + 1 if same else 1,
        )  # fmt: skip
    incident = incident._replace(stage="confirmed", reason=why, frontier=state.frontier, end=None)
    state = want(put(state, incident), incident.id)
    return state if treated or cause == "hang" else move(state, "failed", f"{cause}: {why}")


def _gave_up(rules: Rules, state: State, fact: Exited) -> State:
    """A trainer that ends over its own numbers would meet them again: the ladder of `nonfinite` answers, no restart."""
    spike, onset = rules.policy.spikes.nonfinite, state.step + 1
    known = next((i for i in reversed(state.incidents) if i.cls == "nonfinite" and i.live), None)
    if known is None:
        number = state.incidents[-1].id + 1 if state.incidents else 1
        known = Incident(number, "nonfinite", spike.severity, state.attempt, onset, onset, state.step)
        known = known._replace(rung=rung_of(rules, state, known._replace(stage="confirmed")))
    else:
        if known.attempt != state.attempt:
            known = known._replace(attempt=state.attempt, onset=onset, onset_low=onset)
        known = known._replace(events=known.events + 1, detected=state.step)
    known = known._replace(
        stage="confirmed", severity=spike.severity, reason=fact.why, verdict="", skipped=False, end=None,
        frontier=state.frontier,
    )  # fmt: skip
    state = want(put(state, known), known.id)
    returns = any(response.verb in ("relaunch", "hold") for rung in spike.respond for response in rung)
    return state if returns else move(state, "failed", f"nonfinite: {fact.why}")


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


def tick(rules: Rules, state: State, fact: Tick) -> State:
    hang = _hang_at(rules, state)
    state = state._replace(time=max(state.time, fact.time))
    for number, until in state.proposed:
        if fact.time >= until:
            state = waited(rules, state, number)
    if hang is None or fact.time < hang:
        return state
    silent = fact.time - (hang if state.moved is None else state.moved)
    return fail(rules, state._replace(hung=state.attempt), "hang", f"no step for {silent:.0f} s after {state.step}")
