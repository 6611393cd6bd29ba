"""Why, for a person: what happened and what points to a cause, in two sentences, then the numbers.

Pure: everything is read off the state as it stands when the incident changes. What is not known is not said.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from orchestrator.core.facts import Reading
from orchestrator.core.rules import Rules
from orchestrator.core.schedule import phase_at
from orchestrator.core.state import Entry, Incident, State, attempt_of

NEAR = 500  # steps after a planned change in which it may be the cause
RATE, RATE_STEPS = 0.15, 200  # the rate changed when it did so by so much, within so many steps before
COMMON = 0.5  # a shard read in more than this share of all steps says nothing
HIGH = 1.0  # a rise of the whole level is harm in itself where the gradient norm rose too
SAME = 2  # steps by which places in the data, or periods, may differ
BATCH = 2.0  # a batch's lengths are odd where they differ from the usual ones by such a factor
PERIODS = 0.02  # or this share of the period
SPIKES = frozenset({"isolated", "repeated", "persistent", "nonfinite", "rank_local"})


class Past(NamedTuple):
    """An incident of another run, as its journal tells it."""

    run: str
    cls: str
    onset: int
    shards: tuple[str, ...] = ()


def verdict(rules: Rules, state: State, incident: Incident) -> str:
    """Two sentences and the numbers; of what is no spike only its reason."""
    if incident.cls not in SPIKES:
        return incident.reason
    hints = "; ".join(_hints(rules, state, incident)) or "nothing that was planned or measured points to a cause"
    return f"{_what(incident)}. {hints[0].upper()}{hints[1:]}. ({'; '.join(_numbers(incident))})"


def harm(rules: Rules, state: State, incident: Incident) -> tuple[str, ...]:
    """What makes an incident worse than its class: the policy's severity is raised by it."""
    if incident.cls not in SPIKES or incident.cls == "nonfinite" or incident.severity == "info":
        return ()
    found = [*_place(state, incident), *(said for bad, said in _evaluated(rules, state, incident) if bad)]
    if incident.height >= HIGH and any(reading.signal == "grad_norm" for reading in incident.evidence):
        found.append(f"{100 * incident.height:.3g} % high with the gradient norm")
    return tuple(found)


def recalled(incident: Incident, past: Iterable[Past]) -> str:
    """What other runs met at the same place; empty where they met nothing there."""
    said = []
    for each in past:
        shared = sorted(set(incident.shards) & set(each.shards))
        if each.cls in SPIKES and shared:
            said.append(f"{each.run} read {shared[0]} in an incident ({each.cls}) at step {each.onset}")
        elif each.cls in SPIKES and abs(each.onset - incident.onset) <= SAME:
            said.append(f"{each.run} had an incident ({each.cls}) at the same step")
    return f"Not the first time: {'; '.join(said[:3])}." if said else ""


def _what(incident: Incident) -> str:
    height = f"{100 * incident.height:.3g} %" if incident.height < 10.0 else f"{100 * incident.height:,.0f} %"
    level = f"its level of {incident.baseline:.4g}" if incident.baseline is not None else "its level"
    lasted = (incident.end or incident.detected) - incident.onset + 1
    match incident.cls:
        case "isolated" if incident.stage == "open":
            return f"The loss stands {height} above {level}"
        case "isolated":
            return f"The loss stood up to {height} above {level} for {_steps(lasted)} and came back"
        case "repeated":
            return f"{incident.events} excursions in {_steps(lasted)}, up to {height} high, each back at the old level"
        case "persistent" if incident.end is None or incident.live:
            return f"The loss rose by {height} from {level} and has not come back"
        case "persistent":
            return f"The loss rose by {height} from {level} and came back after {_steps(lasted)}"
    seen = next((r.detail for r in incident.evidence if r.kind in ("nonfinite", "rank") and r.detail), incident.reason)
    return f"{seen[:1].upper()}{seen[1:]}"


def _hints(rules: Rules, state: State, incident: Incident) -> Iterator[str]:
    """Everything that points to a cause, the surroundings first."""
    yield from _launch(state, incident)
    yield from _phase(rules, state, incident)
    yield from _rate(rules, state, incident)
    yield from _evidence(incident)
    yield from _period(state, incident)
    yield from _source(state, incident)
    yield from _batch(state, incident)
    yield from _place(state, incident)
    yield from _validation(rules, state, incident)


# --- what was planned ----------------------------------------------------------------------------------


def _launch(state: State, incident: Incident) -> Iterator[str]:
    attempt = attempt_of(state, incident.attempt)
    if attempt is None or not attempt.start_step:
        return
    after = incident.onset - attempt.start_step
    if 0 <= after <= NEAR:
        yield f"{_steps(after)} after the launch of attempt {attempt.number} from step {attempt.start_step}"


def _phase(rules: Rules, state: State, incident: Incident) -> Iterator[str]:
    began, name = state.watch.switched, state.watch.phase
    if not began and (at := phase_at(rules.policy.phases, incident.onset)) is not None:
        began, name = at.since and at.since + 1, at.name
    if began and 0 <= incident.onset - began <= NEAR:
        yield f"{_steps(incident.onset - began)} after the switch to phase {name}"


def _rate(rules: Rules, state: State, incident: Incident) -> Iterator[str]:
    schedule = rules.policy.schedule
    if schedule is not None and schedule.warmup is not None and incident.onset <= schedule.warmup.for_:
        yield f"in warm-up, which ends at step {schedule.warmup.for_}"
        return
    entries = state.history.between(incident.onset - RATE_STEPS, incident.onset)
    known = [(entry.step, entry.lr) for entry in entries if entry.lr]
    if len(known) < 2:
        return
    jumps = [(step, a, b) for (_, a), (step, b) in pairwise(known) if abs(b - a) > RATE * a]
    if jumps and len(jumps) < len(known) // 2:
        step, before, after = jumps[-1]
        yield f"{_steps(incident.onset - step)} after the learning rate went from {before:.3g} to {after:.3g}"
    elif known[-1][1] > (1.0 + RATE) * known[0][1]:
        yield f"while the learning rate was rising, from {known[0][1]:.3g} to {known[-1][1]:.3g}"


# --- what was measured ---------------------------------------------------------------------------------


def _evidence(incident: Incident) -> Iterator[str]:
    for reading in incident.evidence:
        if reading.kind == "leading" and reading.step < incident.detected:
            yield _led(reading, incident.detected - reading.step)
        elif reading.detector == "clip_saturation":
            yield f"clipping had been saturated: it acted on {100 * reading.value:.0f} % of the steps before"
        elif reading.kind in ("fault", "context"):
            yield f"{reading.detail} (step {reading.step})"
    if incident.cls == "nonfinite" and incident.skipped:
        yield "the trainer skipped the update, so the weights are as they were"


def _led(reading: Reading, steps: int) -> str:
    name = "the gradient norm" if reading.signal == "grad_norm" else "the size of the updates"
    return f"{name} led by {_steps(steps)}, {reading.value:.4g} where {reading.baseline:.4g} is usual"


def _period(state: State, incident: Incident) -> Iterator[str]:
    onsets = sorted(each.onset for each in _events(state, incident))
    gaps = [after - before for before, after in pairwise(onsets)]
    if len(gaps) >= 2 and max(gaps) - min(gaps) <= max(SAME, PERIODS * min(gaps)):
        yield f"periodic, every {_steps(round(sum(gaps) / len(gaps)))}: an order in the data rather than instability"


def _source(state: State, incident: Incident) -> Iterator[str]:
    """The shard that several events have in common, or the only one of a single event; the host of a rank."""
    if incident.rank is not None and (host := _host(state, incident.rank)):
        yield f"rank {incident.rank} runs on {host}"
    events = _events(state, incident)
    read = Counter(shard for event in events for shard in dict.fromkeys(event.shards))
    shard, times = read.most_common(1)[0] if read else ("", 0)
    if not shard or _share(state, shard) > COMMON:
        return
    if len(events) > 1 and times > 1:
        yield f"shard {shard} was read in {times} of the {len(events)} events"
    elif len(events) == 1 and len(read) == 1:
        yield f"only shard {shard} was read in it"


def _batch(state: State, incident: Incident) -> Iterator[str]:
    """What is odd in the batch at the onset, against those that are remembered."""
    first = next((read for read in incident.batches if read.step >= incident.onset), None)
    if first is None:
        return
    usual = [read.batch for read in state.batches]
    longest = sorted(batch.max_len for batch in usual if batch.max_len)
    counted = sorted(batch.loss_tokens for batch in usual if batch.loss_tokens)
    said, now = f"the batch of step {first.step}", first.batch
    if now.max_len and longest and now.max_len >= BATCH * longest[len(longest) // 2]:
        yield f"{said} held a sample of {now.max_len:g} tokens where {longest[len(longest) // 2]:g} is usual"
    if now.loss_tokens is not None and counted and now.loss_tokens * BATCH <= counted[len(counted) // 2]:
        yield f"{said} had {now.loss_tokens:g} tokens that count where {counted[len(counted) // 2]:g} is usual"


def _place(state: State, incident: Incident) -> Iterator[str]:
    """The same trouble at the same place in another attempt, or as long after another launch."""
    others = [i for i in state.incidents if i.attempt != incident.attempt and i.cls in SPIKES]
    for other in reversed(others):
        shared = [shard for shard in incident.shards if shard in other.shards and _share(state, shard) <= COMMON]
        if abs(other.onset - incident.onset) <= SAME:
            yield f"attempt {other.attempt} met an incident ({other.cls}) at the same step"
        elif shared:
            yield f"attempt {other.attempt} read {shared[0]} in an incident ({other.cls}) too"
        elif (after := _since_launch(state, other)) > SAME and abs(after - _since_launch(state, incident)) <= SAME:
            yield f"attempt {other.attempt} met one as long after its launch"
        else:
            continue
        return


def _validation(rules: Rules, state: State, incident: Incident) -> Iterator[str]:
    yield from (said for _, said in _evaluated(rules, state, incident))


def _evaluated(rules: Rules, state: State, incident: Incident) -> Iterator[tuple[bool, str]]:
    """Whether each evaluation's first value after the onset is worse than its best before, and that in words."""
    mine = [(name, step, value) for name, _, step, value in state.evals]
    for name in dict.fromkeys(name for name, *_ in mine):
        before = [v for n, step, v in mine if n == name and step < incident.onset and v is not None]
        after = [v for n, step, v in mine if n == name and step >= incident.onset]
        if not before or not after:
            continue
        best, now = min(before), after[0]
        if now is None:
            yield True, f"evaluation {name} is not finite since"
        elif now > best + rules.policy.checkpoints.eval_worse * abs(best):
            yield True, f"evaluation {name} is hurt, {now:.4g} after {best:.4g}"
        else:
            yield False, f"evaluation {name} is not hurt, {now:.4g} after {best:.4g}"


def _numbers(incident: Incident) -> Iterator[str]:
    low, onset = incident.onset_low, incident.onset
    yield f"onset {onset if low >= onset else f'{low} to {onset}'}"
    yield f"seen {incident.detected}"
    if incident.peak is not None and incident.peak_step is not None:
        yield f"peak {incident.peak:.4g} at step {incident.peak_step}"
    for reading in incident.evidence[:1]:
        if reading.signal == "loss" or (reading.kind == "rank" and reading.signal != "finite"):
            spread = f", spread {reading.spread:.2g}" if reading.spread else ""
            yield f"{reading.detector}: {reading.value:.4g} above {reading.threshold:.4g}{spread}"
    if incident.shards:
        more = f" and {len(incident.shards) - 3} more" if len(incident.shards) > 3 else ""
        yield f"read {', '.join(incident.shards[:3])}{more}"
    if (first := next((read for read in incident.batches if read.step >= onset and read.batch.ids), None)) is not None:
        ids = first.batch.ids[:3]
        more = f" and {left} more" if (left := len(first.batch.ids) - len(ids) + first.batch.more) else ""
        yield f"batch of step {first.step}: {', '.join(ids)}{more}"


# --- questions to the state ----------------------------------------------------------------------------


class _Event(NamedTuple):
    """Where one excursion of an incident began and what was read in it."""

    onset: int
    shards: tuple[str, ...]


def _events(state: State, incident: Incident) -> list[_Event]:
    merged = [_Event(i.onset, i.shards) for i in state.incidents if i.merged == incident.id]
    if not merged:
        return [_Event(incident.onset, incident.shards)]
    entries = state.history.between(incident.onset, incident.detected)
    return [_Event(incident.onset, _read(entries) or incident.shards), *merged]


def _read(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shard for entry in entries for shard in entry.shards))


def _share(state: State, shard: str) -> float:
    """In which share of the remembered steps a shard is read."""
    entries = state.history.between(0, state.frontier)
    return sum(shard in entry.shards for entry in entries) / max(len(entries), 1)


def _since_launch(state: State, incident: Incident) -> int:
    attempt = attempt_of(state, incident.attempt)
    return incident.onset - attempt.start_step if attempt is not None else -1


def _host(state: State, rank: int) -> str:
    """The host of a rank: hosts are named one for each rank, or each for as many ranks in a row."""
    size, hosts = state.world_size or 0, state.hosts
    if len(hosts) < 2 or size % len(hosts) or rank >= size:
        return ""
    return hosts[rank * len(hosts) // size]


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"
