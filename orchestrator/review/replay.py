"""What a policy would have done on recordings, and what that would have cost or saved.

    {"recordings": [{"recording": PATH, "steps": N, "records": N, "incidents": [...], "actions": [...],
                     "planned": [...], "skipped_lines": N, "seconds": X, ...}]}

The run's own policy on its own journal is retraced (see agreement), anything else is teacher-forced (see
teacher): the recording cannot show what a decision would have changed, so every estimate says what it
rests on.
"""

import gc
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from orchestrator import registry
from orchestrator.core.facts import Decision, Fact, Step
from orchestrator.core.policy import Policy
from orchestrator.core.rules import Rules
from orchestrator.review.agreement import Retracing
from orchestrator.review.counterfactual import compared
from orchestrator.review.recording import JOURNAL, Recording
from orchestrator.review.status import action_json, incident_json
from orchestrator.review.teacher import Teacher
from orchestrator.store.recorded import rules_of

FORMAT_VERSION = 1


def replay(policy: Policy, recordings: Sequence[str], format: str | None = None) -> dict[str, Any]:
    """Every recording through the same evolve and plan as live; ConfigError where one cannot be read."""
    rules = registry.bind(policy)
    opened = [Recording(path, format) for path in recordings]
    return {"format_version": FORMAT_VERSION, "recordings": [told(rules, recording) for recording in opened]}


def told(rules: Rules, recording: Recording) -> dict[str, Any]:
    """One recording's part of the answer."""
    if recording.format == JOURNAL and recording.header and rules_of(recording.header).policy == rules.policy:
        return _heard(Retracing(rules), recording)
    return forced(rules, recording)


def forced(rules: Rules, recording: Recording) -> dict[str, Any]:
    """One recording's part of the answer, teacher-forced whatever the recording is."""
    return _heard(Teacher(rules, assume=not recording.tells_checkpoints), recording)


def _heard(listener: Teacher | Retracing, recording: Recording) -> dict[str, Any]:
    began = time.perf_counter()
    counted = Counted()
    with _uncollected():
        hear = listener.hear
        for batch in recording.batches():
            counted.add(batch)
            for fact in batch:
                hear(fact)
    answer: dict[str, Any] = {
        "recording": recording.path,
        "format": recording.format,
        "steps": counted.steps,
        "records": counted.records,
        **(_retraced(listener) if isinstance(listener, Retracing) else _estimated(listener)),
        "planned": _planned(listener, counted),
        "skipped_lines": recording.skipped,
        "seconds": round(time.perf_counter() - began, 3),
    }
    return answer


class Counted:
    """Step records, distinct steps and where they ended; memory grows with the gaps, not with the steps."""

    def __init__(self) -> None:
        self.records = 0
        self.steps = 0  # distinct ones
        self.first = 0
        self.last = -1
        self._runs: list[list[int]] = []  # unbroken ones: first and last step
        self._single: set[int] = set()  # steps told apart from any run

    def add(self, batch: Sequence[Fact]) -> None:
        """The step records of some facts."""
        steps = [fact.step for fact in batch if type(fact) is Step]
        if not steps:
            return
        if not self.records:
            self.first = steps[0]
        self.records += len(steps)
        low, high = steps[0], steps[-1]
        if low > self.last and high - low + 1 == len(steps) and steps == list(range(low, high + 1)):
            self.steps += len(steps)
            if self._runs and self._runs[-1][1] == low - 1:
                self._runs[-1][1] = high
            else:
                self._runs.append([low, high])
        else:
            self._one_by_one(steps)
        self.last = max(self.last, *steps)

    def _one_by_one(self, steps: Sequence[int]) -> None:
        for step in steps:
            at = bisect_right(self._runs, step, key=lambda run: run[0]) - 1
            if step not in self._single and not (at >= 0 and step <= self._runs[at][1]):
                self._single.add(step)
                self.steps += 1


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector: facts and states are acyclic, and it would walk them again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


# --- the answer --------------------------------------------------------------------------------------


def _estimated(teacher: Teacher) -> dict[str, Any]:
    incidents = _incidents(teacher, teacher.decisions)
    for incident, decided in zip(incidents, _by_incident(teacher, teacher.decisions), strict=True):
        incident["why"] = decided[-1].why if decided else ""
        incident["counterfactual"] = compared(teacher, incident, decided)
    saved = [incident["counterfactual"]["saved_steps"] for incident in incidents]
    return {
        "teacher_forced": True,
        "checkpoints": "assumed" if teacher.cadence else "recorded",
        "incidents": incidents,
        "actions": [action for incident in incidents for action in incident["actions"]],
        "saved_steps": sum(step for step in saved if step is not None),
    }


def _retraced(retracing: Retracing) -> dict[str, Any]:
    incidents = _incidents(retracing, retracing.decisions)
    return {
        "teacher_forced": False,
        "checkpoints": "recorded",
        "agrees": retracing.difference is None,
        "difference": retracing.difference,
        "decisions": len(retracing.decisions),
        "incidents": incidents,
        "actions": [action for incident in incidents for action in incident["actions"]],
    }


def _by_incident(listener: Teacher | Retracing, decisions: list[Decision]) -> list[list[Decision]]:
    found: dict[int, list[Decision]] = {}
    for decision in decisions:
        found.setdefault(decision.incident, []).append(decision)
    return [found.get(incident.id, []) for incident in listener.all_incidents()]


def _incidents(listener: Teacher | Retracing, decisions: list[Decision]) -> list[dict[str, Any]]:
    known = zip(listener.all_incidents(), _by_incident(listener, decisions), strict=True)
    return [
        incident_json(incident, [action_json(action) for decision in decided for action in decision.actions])
        for incident, decided in known
    ]


def _planned(listener: Teacher | Retracing, counted: Counted) -> list[dict[str, Any]]:
    """What the policy does by schedule within the recording: checkpoints at its cadence, phase switches."""
    policy, planned = listener.rules.policy, []
    if isinstance(listener, Teacher) and listener.cadence is not None:
        planned += [_scheduled(step, "checkpoint", assumed=True) for step in sorted(set(listener.cadence.planned))]
    for name, phase in policy.phases.items():
        at = next((since for since in _begins(policy, name)), None)
        if at is not None and counted.first <= at + 1 <= counted.last and at:
            planned.append(_scheduled(at + 1, "lr", factor=phase.lr, phase=name))
            if phase.clip is not None:
                planned.append(_scheduled(at + 1, "clip", max_norm=phase.clip, phase=name))
    return sorted(planned, key=lambda action: int(action["step"]))


def _begins(policy: Policy, name: str) -> Iterator[int]:
    since = 0
    for known, phase in policy.phases.items():
        if known == name:
            yield since
        if phase.until is None:
            return
        since = phase.until


def _scheduled(step: int, verb: str, **args: object) -> dict[str, Any]:
    return {"step": step, "verb": verb, "args": args}
