"""One case through decide, with a virtual clock: what is decided is done at once and succeeds."""

from collections.abc import Iterator
from typing import Any

from orchestrator.core.decide import decide
from orchestrator.core.facts import (
    Action,
    Announced,
    Checkpoint,
    Decision,
    Exited,
    Fact,
    Launched,
    Outcome,
    Ranks,
    Step,
    Tick,
    ranks_of,
    step_of,
)  # fmt: skip
from orchestrator.core.lifecycle import deadline
from orchestrator.core.rules import Rules
from orchestrator.core.schedule import checkpoint_due, lr_scale, phase_factor, rate
from orchestrator.core.state import FINAL, Incident, State, first
from orchestrator.review.cases.series import at
from orchestrator.review.cases.text import Attempt, Case
from orchestrator.review.status import action_json, incident_json


class CaseRun:
    """The job of a case: it exists only as facts, obeys what is decided, and says what its series say."""

    def __init__(self, rules: Rules, case: Case) -> None:
        self._rules, self._case = rules, case
        self._todo: list[Action] = []
        self._time = 0.0
        self._alive = False
        self._saved = 0
        self.state: State = first(rules)
        self.decisions: list[Decision] = []

    def run(self) -> "CaseRun":
        """Every attempt of the case, as far as the policy lets it come."""
        self._tell(Tick(0.0))
        self._do_all()
        if not self.state.attempt:  # a policy that only looks on starts nothing
            self._launch(1, 0, "")
        for attempt in self._case.attempts:
            if not self._alive or self.state.status in FINAL:
                break
            self._attempt(attempt)
        return self

    def incidents(self) -> list[dict[str, Any]]:
        """What the policy made of it; routine things (severity info) left out."""
        known = [i for i in self.state.incidents if i.merged is None and i.severity != "info"]
        return [incident_json(incident, self._actions(incident)) for incident in known]

    def _actions(self, incident: Incident) -> list[dict[str, Any]]:
        mine = [decision for decision in self.decisions if decision.incident == incident.id]
        return [action_json(action) for decision in mine for action in decision.actions]

    # --- facts ----------------------------------------------------------------------------------------

    def _tell(self, fact: Fact) -> None:
        self.state, decided = decide(self._rules, self.state, fact)
        self.decisions += decided
        self._todo += [action for decision in decided if decision.mode == "act" for action in decision.actions]

    def _attempt(self, attempt: Attempt) -> None:
        number, start = self.state.attempt, self.state.step
        for index in range(attempt.length):
            self._time += self._case.pace * self._case.every
            self._wake(self._time)
            self._tell(self._record(attempt, index, start + (index + 1) * self._case.every))
            self._save()
            self._do_all()
            if self.state.attempt != number or not self._alive or self.state.status in FINAL:
                return
        if attempt.silence:
            self._wake(self._time + attempt.silence)
            self._time += attempt.silence
        if attempt.ends and self.state.attempt == number:
            self._exit(attempt.ends, "the case says so")
            self._do_all()

    def _wake(self, until: float) -> None:
        """The time that the core asked to be woken at, where it comes before the next record."""
        due = deadline(self._rules, self.state)
        if due is not None and due < until:
            self._tell(Tick(due))
            self._do_all()

    def _record(self, attempt: Attempt, index: int, step: int) -> Step:
        values = {name: at(series, index) for name, series in attempt.values.items() if name != "skipped"}
        if "lr" not in values:
            values["lr"] = self._rate(step)
        phase = attempt.phase[index] if index < len(attempt.phase) else None
        return step_of(
            self.state.attempt, step, values, time=self._time, phase=phase, shards=self._shards(step),
            skipped=bool(at(attempt.values.get("skipped", ()), index)), ranks=_ranks(attempt, index),
        )  # fmt: skip

    def _rate(self, step: int) -> float:
        """What a job that obeys would report."""
        policy = self._rules.policy
        planned = rate(policy.schedule, step) if policy.schedule is not None else 1e-3
        return planned * phase_factor(policy.phases, step) * lr_scale(self.state.levels.cuts, step)

    def _shards(self, step: int) -> tuple[str, ...]:
        every = self._case.shards.get("steps")
        return (f"shard-{step // every:05d}",) if every else ()

    def _save(self) -> None:
        step, given = self.state.step, self._case.checkpoints
        dense = self.state.levels.dense_until
        due = checkpoint_due(self._rules.policy, step, self._saved, dense) if given is None else step in given
        if due and self._alive:
            self._saved = step
            self._tell(Checkpoint(self.state.attempt, step, f"step-{step}", "saved", time=self._time))

    # --- obeying --------------------------------------------------------------------------------------

    def _do_all(self) -> None:
        while self._todo:
            self._do(self._todo.pop(0))

    def _do(self, action: Action) -> None:
        if action.verb == "stop" and self._alive:
            self._exit("crash", "asked to stop")
        if action.verb == "relaunch" and not self._alive:
            self._launch(action.attempt + 1, action.to_step or 0, action.path)
        self._tell(Outcome(action.id, "done", "done in a case", self._time))

    def _exit(self, cause: Any, why: str) -> None:
        self._alive = False
        self._tell(Exited(self.state.attempt, 0 if cause == "completed" else 1, None, cause, why, self._time))

    def _launch(self, attempt: int, step: int, path: str) -> None:
        self._alive, self._saved = True, step
        total = self._case.shards.get("total")
        self._tell(Launched(attempt, step, path, "here", 1, self._time))
        self._tell(Announced(attempt, step, shards_total=total, hosts=("here",), hook=True, time=self._time))


def _ranks(attempt: Attempt, index: int) -> Ranks | None:
    """Every rank's loss where any has a series of its own; the others have the run's."""
    if not attempt.ranks:
        return None
    common = at(attempt.values.get("loss", ()), index)
    count = max(4, max(attempt.ranks) + 1)
    return ranks_of([at(attempt.ranks[rank], index) if rank in attempt.ranks else common for rank in range(count)])


def differences(case: Case, found: list[dict[str, Any]]) -> list[str]:
    """What came out otherwise than expected, in words; empty when all is as it should be."""
    wrong = []
    for number, (wanted, got) in enumerate(zip(case.expect, found, strict=False), 1):
        wrong += [f"incident {number}: {text}" for text in _compared(wanted, got)]
    wrong += [f"expected, but did not happen: {_said(wanted)}" for wanted in case.expect[len(found) :]]
    wrong += [f"happened, but is not expected: {_brief(got)}" for got in found[len(case.expect) :]]
    return wrong


_KEYS = {"onset": "onset_step", "detected": "detected_step", "end": "end_step"}


def _compared(wanted: dict[str, Any], got: dict[str, Any]) -> Iterator[str]:
    for key, value in wanted.items():
        if key == "actions":
            yield from _actions(value, got["actions"])
            continue
        seen = got[_KEYS.get(key, key)]
        if not _fits(value, seen):
            yield f"{key} is {seen}, expected {_said(value)}"


def _fits(wanted: Any, seen: Any) -> bool:
    """A number may be given as [lowest, highest]."""
    if isinstance(wanted, tuple) and len(wanted) == 2 and isinstance(seen, int):
        return bool(wanted[0] <= seen <= wanted[1])
    if isinstance(seen, list):
        return bool(wanted == seen[1] or wanted == tuple(seen))
    return bool(wanted == seen)


def _actions(wanted: Any, got: list[dict[str, Any]]) -> Iterator[str]:
    verbs = [next(iter(item)) if isinstance(item, dict) else item for item in wanted]
    seen = [action["verb"] for action in got]
    if verbs != seen:
        yield f"actions are {_said(seen)}, expected {_said(verbs)}"
        return
    for item, action in zip(wanted, got, strict=True):
        for key, value in (next(iter(item.values())) if isinstance(item, dict) else {}).items():
            known = action["step"] if key == "step" else action["args"].get(key)
            if not _fits(value, known) and not _near(value, known):
                yield f"{action['verb']}: {key} is {known}, expected {value}"


def _near(wanted: Any, seen: Any) -> bool:
    return isinstance(wanted, float) and isinstance(seen, float) and abs(wanted - seen) <= 1e-6 * abs(wanted)


def _said(value: Any) -> str:
    from orchestrator.store.policy_write import flow

    return flow(value)


def _brief(got: dict[str, Any]) -> str:
    verbs = [action["verb"] for action in got["actions"]]
    return f"{got['class']} ({got['severity']}) with onset {got['onset_step']}, actions {_said(verbs)}: {got['reason']}"
