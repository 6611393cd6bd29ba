"""What a detector's word about labelled runs is worth. Pure: runs and results in, numbers out.

Two kinds of results are judged alike as far as they go: recordings as `orchestrate replay --json` gives
them (classes, onsets, actions), and the bare steps at which a peer fires.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from labels import CLASSES, Event, Expected, Run

AFTER_SWITCH = 300  # steps in which an alarm counts as one at a planned change
APART = 10  # records without an alarm that end an episode of alarms
OWN_STEP = ("isolated", "nonfinite")


class Incident(NamedTuple):
    """One incident above `info` of a replay; `verbs` are its actions but for `record`."""

    kind: str
    lo: int
    hi: int
    detected: int
    end: int | None
    rank: int | None
    verbs: tuple[str, ...]


class Found(NamedTuple):
    """Whether one planted excursion was found, and how many steps after the fault; None when it was not."""

    kind: str
    certain: bool
    delay: int | None


@dataclass
class Verdict:
    """One run held against its labels; `right` is None where the detector names no class."""

    name: str
    seed: int
    line: int
    steps: int
    healthy: bool
    found: list[Found] = field(default_factory=list)
    own_step: list[bool] = field(default_factory=list)
    rank_named: list[bool] = field(default_factory=list)
    right: bool | None = None
    acted_on_isolated: int = 0
    false_incidents: int = 0
    false_actions: int = 0
    planned_alarms: int = 0
    why: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


def incidents(recording: Mapping[str, Any]) -> list[Incident]:
    """The incidents above `info` of one recording of `replay --json`."""
    out = []
    for raw in recording["incidents"]:
        onset = raw["onset_step"]
        lo, hi = onset if isinstance(onset, (list, tuple)) else (onset, onset)
        verbs = tuple(action["verb"] for action in raw["actions"] if action["verb"] != "record")
        if raw["severity"] != "info" or verbs:
            out.append(Incident(raw["class"], lo, hi, raw["detected_step"], raw["end_step"], raw["rank"], verbs))
    return out


def _window(expected: Expected, event: Event) -> tuple[int, int]:
    """The steps in which an excursion counts as found: the incident's for one, each its own for several.

    What leads a spike may tell of it early; an alarm before a jump or an odd rank is chance.
    """
    if len(expected.events) > 1:
        return event.step, event.last
    return (expected.lo if expected.kind in OWN_STEP else expected.fault), expected.by


def _first(steps: Iterable[int], lo: int, hi: int) -> int | None:
    return min((step for step in steps if lo <= step <= hi), default=None)


def _found_by_incident(expected: Expected, event: Event, seen: Sequence[Incident]) -> Found:
    lo, hi = _window(expected, event)
    step = _first((i.detected for i in seen), lo, hi)
    if step is None and any(
        i.lo <= event.last and i.detected <= hi and (i.end is None or i.end >= event.step) for i in seen
    ):
        step = event.step  # an incident that is already open covers it
    return Found(expected.kind, event.certain, None if step is None else max(step - event.step, 0))


def _matches(expected: Expected, incident: Incident) -> bool:
    return (
        incident.kind == expected.kind
        and incident.lo <= expected.hi
        and incident.hi >= expected.lo
        and (expected.rank is None or incident.rank == expected.rank)
    )


def _compare(verdict: Verdict, run: Run, seen: Sequence[Incident]) -> None:
    """Exactly the expected incidents, each by class, onset and rank, and nothing beside them."""
    left = list(seen)
    for expected in run.expected:
        match = next((i for i in left if _matches(expected, i)), None)
        if match is not None:
            left.remove(match)
        else:
            rank = "" if expected.rank is None else f" rank {expected.rank}"
            verdict.why.append(f"no {expected.kind}{rank} with onset in {expected.lo}..{expected.hi}")
        _time(verdict, expected, match)
    verdict.why += [f"beside it: {_words(i)}" for i in left]
    verdict.right = not verdict.why


def _time(verdict: Verdict, expected: Expected, match: Incident | None) -> None:
    """Whether the incident was opened as soon as it can be asked: at its own step, within ten for a rank."""
    if expected.kind == "rank_local":
        verdict.rank_named.append(match is not None and match.detected <= expected.by)
    elif expected.kind in OWN_STEP and match is not None:
        first = expected.events[0].step
        verdict.own_step.append(expected.lo <= match.detected <= first)
        if not verdict.own_step[-1]:
            verdict.late.append(f"{expected.kind} of {first} opened at {match.detected}")


def _words(i: Incident) -> str:
    rank = "" if i.rank is None else f" rank {i.rank}"
    return f"{i.kind}{rank} onset {i.lo}..{i.hi} seen {i.detected} {' '.join(i.verbs)}".rstrip()


def judge(run: Run, recording: Mapping[str, Any]) -> Verdict:
    """A replay of one run held against its labels."""
    seen = incidents(recording)
    verdict = Verdict(run.name, run.seed, run.line, run.steps, not run.expected)
    verdict.planned_alarms = _near([i.detected for i in seen], run.planned)
    if not run.expected:
        verdict.false_incidents = len(seen)
        verdict.false_actions = sum(action["verb"] != "record" for action in recording["actions"])
        verdict.why = [_words(i) for i in seen]
        return verdict
    verdict.found = [_found_by_incident(x, event, seen) for x in run.expected for event in x.events]
    verdict.acted_on_isolated = sum(len(i.verbs) for i in seen if i.kind == "isolated")
    _compare(verdict, run, seen)
    return verdict


def judge_alarms(run: Run, steps: Sequence[int], alarms: Sequence[int]) -> Verdict:
    """The records (indices into `steps`) at which a peer fires; neighbouring alarms are one false action.

    An alarm that merely goes on from the record before finds nothing: a detector stuck at "fire" is blind.
    """
    on = set(alarms)
    fired = [steps[k] for k in alarms if k - 1 not in on]
    verdict = Verdict(run.name, run.seed, run.line, run.steps, not run.expected)
    begun = [k for n, k in enumerate(alarms) if not n or k - alarms[n - 1] > APART]
    verdict.planned_alarms = _near([steps[k] for k in begun], run.planned)
    if not run.expected:
        verdict.false_incidents = verdict.false_actions = len(begun)
    for expected in run.expected:
        for event in expected.events:
            step = _first(fired, *_window(expected, event))
            delay = None if step is None else max(step - event.step, 0)
            verdict.found.append(Found(expected.kind, event.certain, delay))
    return verdict


def _near(steps: Iterable[int], planned: Sequence[int]) -> int:
    return sum(any(p <= step <= p + AFTER_SWITCH for p in planned) for step in steps)


def _share(values: Iterable[bool]) -> float | None:
    values = list(values)
    return sum(values) / len(values) if values else None


def _within(verdicts: Sequence[Verdict], name: str, most: int) -> float | None:
    return _share(f.delay is not None and f.delay <= most for v in verdicts if v.name == name for f in v.found)


def _median(verdicts: Sequence[Verdict], accept: Callable[[Verdict, Found], bool]) -> float | None:
    delays = [f.delay for v in verdicts for f in v.found if f.delay is not None and accept(v, f)]
    return statistics.median(delays) if delays else None


def _all_found(verdicts: Sequence[Verdict], name: str) -> float | None:
    return _share(all(f.delay is not None for f in v.found) for v in verdicts if v.name == name)


def summary(verdicts: Sequence[Verdict]) -> dict[str, float | None]:
    """The numbers of one row: shares from 0 to 1, delays in steps; None where nothing was asked or nothing found."""
    out: dict[str, float | None] = {}
    for kind in CLASSES:
        out[kind] = _share(f.delay is not None for v in verdicts for f in v.found if f.kind == kind and f.certain)
    out["class right"] = _share(v.right for v in verdicts if v.right is not None)
    out["own step"] = _share(on for v in verdicts for on in v.own_step)
    out["rank in 10"] = _share(named for v in verdicts for named in v.rank_named)
    out["delay"] = _median(verdicts, lambda v, f: f.certain and v.line != 2)
    out["+3 % in 32"] = _within(verdicts, "jump_300", 32)
    out["+3 % delay"] = _median(verdicts, lambda v, f: v.name == "jump_300")
    out["+0.75 % in 128"] = _within(verdicts, "jump_075_flat", 128)
    out["same, falling"] = _within(verdicts, "jump_075_falling", 128)
    out["+0.75 % delay"] = _median(verdicts, lambda v, f: v.name.startswith("jump_075"))
    out["slow rise"] = _all_found(verdicts, "slow_rise")
    out["NaN, spike"] = _all_found(verdicts, "nan_then_spike")
    out["900, +70 %"] = _all_found(verdicts, "outlier_then_level")
    healthy = sum(v.steps for v in verdicts if v.healthy)
    for column, name in (("false incidents", "false_incidents"), ("false actions", "false_actions")):
        total = sum(getattr(v, name) for v in verdicts)
        out[column] = 1e4 * total / healthy if healthy else None
    out["at switches"] = float(sum(v.planned_alarms for v in verdicts if v.healthy))
    classifies = out["class right"] is not None
    out["acts on isolated"] = float(sum(v.acted_on_isolated for v in verdicts)) if classifies else None
    out["healthy steps"] = float(healthy)
    return out
