"""A run's story: its journal read once, in memory that does not grow with its steps."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.config import RunDir
from orchestrator.core.facts import Decision, Eval, Outcome, Step, Supervised
from orchestrator.core.health import Verdict, health
from orchestrator.core.policy import SEVERITIES
from orchestrator.core.rules import Rules
from orchestrator.core.state import Incident, Ordered, State, branch
from orchestrator.errors import RunDirError
from orchestrator.review.report_series import Curves
from orchestrator.store import journal
from orchestrator.store.journal import Record
from orchestrator.store.recorded import fold

EVAL = "evaluation "  # before an evaluation's name, among the curves
EVALS = 8  # evaluations by different names that are drawn
CHANGES = 400  # changes of phase that are kept, and changes of policy


class Change(NamedTuple):
    """From this step on an attempt was in a phase."""

    attempt: int
    step: int
    phase: str


class Revised(NamedTuple):
    """Another policy came into force."""

    epoch: int
    step: int
    digest: str
    text: str


@dataclass
class Heard:
    """What the facts tell that the state does not keep."""

    curves: Curves = field(default_factory=Curves)
    phases: list[Change] = field(default_factory=list)
    revised: list[Revised] = field(default_factory=list)
    actions: dict[int, Ordered] = field(default_factory=dict)
    decided: dict[int, str] = field(default_factory=dict)  # an incident's last reason to decide
    newest: tuple[int, int] = (0, 0)  # attempt, step
    _phase: tuple[int, str | None] = (0, None)

    def through(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records, heard on their way."""
        for record in records:
            self._hear(record.fact)
            yield record

    def _hear(self, fact: object) -> None:
        match fact:
            case Step():
                self._step(fact)
            case Eval(attempt, step, name, value) if value is not None:
                names = [known for known in self.curves.names() if known.startswith(EVAL)]
                if EVAL + name in names or len(names) < EVALS:
                    self.curves.add(EVAL + name, attempt, step, value)
            case Decision():
                applied = fact.mode == "act"
                self.actions |= {action.id: Ordered(action, applied) for action in fact.actions}
                self.decided[fact.incident] = fact.why
            case Outcome() if fact.action in self.actions:
                known = self.actions[fact.action]
                self.actions[fact.action] = known._replace(status=fact.status, detail=fact.detail)
            case Supervised() if fact.text:
                self.revised = [*self.revised[-CHANGES:], Revised(fact.epoch, self.newest[1], fact.policy, fact.text)]
            case _:
                pass

    def _step(self, point: Step) -> None:
        if (point.attempt, point.step) <= self.newest:
            return  # a resumed trainer logs a step twice
        self.newest = (point.attempt, point.step)
        for name, value in (("loss", point.loss), ("lr", point.lr)):
            if value is not None:
                self.curves.add(name, point.attempt, point.step, value)
        if point.nonfinite:
            self.curves.add("nonfinite", point.attempt, point.step, 0.0)
        if point.phase is not None and (point.attempt, point.phase) != self._phase:
            self._phase = (point.attempt, point.phase)
            self.phases = [*self.phases[-CHANGES:], Change(point.attempt, point.step, point.phase)]


@dataclass(frozen=True)
class Story:
    """Everything that a report tells of a run."""

    name: str
    path: str
    rules: Rules
    state: State
    header: dict[str, Any]
    heard: Heard

    @property
    def empty(self) -> bool:
        """Whether there is no curve to draw."""
        return not self.heard.curves.attempts("loss")

    @property
    def digest(self) -> str:
        """Of the policy in force."""
        return self.heard.revised[-1].digest if self.heard.revised else str(self.header.get("digest", ""))

    @property
    def policy_text(self) -> str:
        """The policy in force."""
        return self.heard.revised[-1].text if self.heard.revised else str(self.header.get("policy", ""))

    def incidents(self) -> list[Incident]:
        """Those that were not merged into another, oldest first."""
        return [incident for incident in self.state.incidents if incident.merged is None]

    def gravest(self) -> Incident | None:
        """The most severe incident, of several the newest that was answered."""
        answered = {ordered.action.incident for ordered in self.actions()}
        order = [(SEVERITIES.index(i.severity), i.id in answered, i.id, i) for i in self.incidents()]
        return max(order, default=(None,))[-1]

    def actions(self, incident: int | None = None) -> list[Ordered]:
        """What was decided (for one incident), in its order."""
        known = self.heard.actions.values()
        return [ordered for ordered in known if incident is None or ordered.action.incident == incident]

    def counts_until(self, attempt: int) -> int:
        """The last step of an attempt that the present run rests on; what came after was abandoned."""
        return branch(self.state).get(attempt, -1)

    def checkpoints(self) -> list[tuple[int, int, str, Verdict]]:
        """Step, attempt, path and verdict of every checkpoint, by step."""
        known = sorted(self.state.checkpoints, key=lambda c: (c.step, c.attempt))
        return [(c.step, c.attempt, c.path, health(self.rules, self.state, c)) for c in known]


def story(path: str | Path) -> Story:
    """The story of a run directory, also of one that has not taken a step; RunDirError where there is no run."""
    run = RunDir(Path(path))
    if not run.journal.is_file():
        raise RunDirError(f"{path}: there is no run here (no {run.journal.name})")
    header = journal.header_of(run.journal)
    if not header:
        raise RunDirError(f"{path}: the run has not begun yet")
    return story_of(path, header, journal.stream(run.journal))


def story_of(path: str | Path, header: dict[str, Any], records: Iterable[Record]) -> Story:
    """The story of a journal's header and records."""
    heard = Heard()
    rules, _, state = fold(header, heard.through(records))
    for ordered in state.actions:  # the newest ones, with what the metrics said of them
        heard.actions[ordered.action.id] = ordered
    return Story(os.path.basename(os.path.abspath(path)), str(path), rules, state, header, heard)
