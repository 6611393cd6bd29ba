"""Teacher-forced: a policy decides at every incident of a recording, and the recording goes on as it was.

Nothing that is decided is done. An action that did not happen in the recording counts as taken: its
incident is answered once an attempt, a hold ends nothing, and the detectors follow the recording.
"""

from dataclasses import replace
from typing import NamedTuple

from orchestrator.core.decide import plan
from orchestrator.core.evolve import evolve
from orchestrator.core.facts import Announced, Checkpoint, Decision, Exited, Fact, Launched, Order, Outcome, Step, Tick
from orchestrator.core.lifecycle import PACE_FACTOR, PACE_MIN, deadline
from orchestrator.core.rules import Rules
from orchestrator.core.state import FINAL, Incident, State, Status, find, first, put
from orchestrator.review import assumed


class Restart(NamedTuple):
    """The recording itself went back (or on) to `start` when it stood at `at`."""

    at: int
    start: int


class Answered(NamedTuple):
    """When an incident was last answered, as which class, and the rung it stood on before."""

    attempt: int
    classes: frozenset[str]
    rung: int


class Teacher:
    """One policy on one recording. `hear` takes the facts in order; the rest are results."""

    def __init__(self, rules: Rules, assume: bool) -> None:
        hang = rules.policy.failures.hang.after
        self._silence = PACE_MIN if hang == "auto" else min(hang, PACE_MIN)
        self.rules = rules._replace(policy=replace(rules.policy, mode="observe"), planned=False)
        self.state: State = first(self.rules)
        self.cadence = assumed.Cadence(rules.policy) if assume else None
        self._due = self.cadence.due if self.cadence else 1 << 62
        self.decisions: list[Decision] = []
        self.restarts: list[Restart] = []
        self.incidents: dict[int, Incident] = {}  # those that the state has let go
        self._answered: dict[int, Answered] = {}
        self._assumed: list[Checkpoint] = []

    def hear(self, fact: Fact) -> None:
        """One fact of the recording; a step's road is kept short."""
        if type(fact) is not Step:
            self._heard(fact)
            return
        state = self.state
        if fact.attempt != state.attempt or state.status in FINAL:
            self._goes_on(fact)
            state = self.state
        elif fact.time - state.time > self._silence and state.time:
            self._silent_until(fact)
            state = self.state
        after = evolve(self.rules, state, fact)
        if after.incidents is not state.incidents:
            self._collect(state, after)
        self.state = self._answers(after) if after.waiting else after
        if fact.step >= self._due:
            self._save(fact)

    def all_incidents(self) -> list[Incident]:
        """Every incident as it stood last, by number; those merged into another left out."""
        known = self.incidents | {incident.id: incident for incident in self.state.incidents}
        return [known[number] for number in sorted(known) if known[number].merged is None]

    # --- facts ----------------------------------------------------------------------------------------

    def _heard(self, fact: Fact) -> None:
        if isinstance(fact, Decision):
            self._recorded(fact)
        elif not isinstance(fact, Outcome):
            self._other(fact)

    def _other(self, fact: Fact) -> None:
        if isinstance(fact, Announced) and fact.attempt > self.state.attempt:
            self._starts(Launched(fact.attempt, fact.start_step, "", "", 0, fact.time))
        if isinstance(fact, Launched) and fact.attempt > self.state.attempt:
            self._starts(fact)
        if isinstance(fact, Exited) and self.state.status in FINAL:
            self.state = self.state._replace(status="running")
        state = evolve(self.rules, self.state, fact)
        if isinstance(fact, Order):  # what an operator wanted was done, or not, in the recording
            state = state._replace(orders=())
        self._collect(self.state, state)
        self.state = self._answers(state) if state.waiting else state

    def _recorded(self, decision: Decision) -> None:
        """What the run itself decided at the time: only that it stopped the job on purpose matters here."""
        stops = decision.mode == "act" and any(action.verb == "stop" for action in decision.actions)
        if stops and self.state.status == "running":
            self.state = self.state._replace(status="stopping")

    def _goes_on(self, point: Step) -> None:
        """The recording goes on after what would have been the end, or with a new attempt nobody announced."""
        if point.attempt > self.state.attempt:
            self._starts(Launched(point.attempt, point.step - 1, "", "", 0, point.time))
        elif point.attempt == self.state.attempt:
            self.state = self.state._replace(status="running", why="", hung=0)

    def _starts(self, launch: Launched) -> None:
        """An attempt begins; where it came from must be known to judge the older checkpoints."""
        state, step, begun = self.state, launch.start_step, self.state.attempt
        if begun:
            self.restarts.append(Restart(state.step, step))
            self.state = state._replace(status="relaunching", why="", hung=0, stop="")
            if self.cadence and step and not any(c.step == step for c in state.checkpoints):
                self._assume(assumed.checkpoint(begun, step, state.time))
        self.state = evolve(self.rules, self.state, launch._replace(checkpoint=launch.checkpoint or self._source(step)))
        if self.cadence is None:
            return
        self.cadence.start(step)
        self._due = self.cadence.due
        if not begun and step >= self.cadence.regular:  # the recording begins in mid-run: it came from somewhere
            self._assume(assumed.checkpoint(launch.attempt, step, launch.time))

    def _source(self, step: int) -> str:
        """The newest attempt's complete checkpoint of a step."""
        found = [known for known in self.state.checkpoints if known.step == step and known.state == "saved"]
        return max(found, key=lambda known: known.attempt).path if found and step else ""

    def _silent_until(self, point: Step) -> None:
        """A live supervisor would have been woken in this silence."""
        due = deadline(self.rules, self.state)
        if due is not None and due < point.time and not self._sparser(point):
            self._other(Tick(due))
            self._goes_on(point)

    def _sparser(self, point: Step) -> bool:
        """The log became sparser: the steps went on at their pace in the silence."""
        state = self.state
        steps = point.step - state.step
        return state.moved is not None and point.time - state.moved <= PACE_FACTOR * steps * state.pace

    # --- checkpoints ----------------------------------------------------------------------------------

    def _save(self, point: Step) -> None:
        if self.cadence is None:
            return
        for step in self.cadence.after(point):
            self._assume(assumed.checkpoint(point.attempt, step, point.time))
        self._due = self.cadence.due

    def _assume(self, checkpoint: Checkpoint) -> None:
        self.state = evolve(self.rules, self.state, checkpoint)
        self._assumed.append(checkpoint)
        if len(self._assumed) > assumed.KEPT:
            oldest = self._assumed.pop(0)
            kept = tuple(known for known in self.state.checkpoints if known is not oldest)
            self.state = self.state._replace(checkpoints=kept)

    # --- decisions ------------------------------------------------------------------------------------

    def _answers(self, state: State) -> State:
        """Every incident that wants an answer gets it, as in observe: written down, not done."""
        state = self._unanswered(state)
        while state.waiting:
            standing: Status = "running" if state.status in ("starting", "running", "stopping") else "relaunching"
            asked = state._replace(status=standing, stop="", orders=(), pending=0, not_before=0.0)
            decision = plan(self.rules, asked)
            if decision is None:
                break
            self._note(state, decision)
            state = evolve(self.rules, state, decision)
        return state

    def _unanswered(self, state: State) -> State:
        """Without the incidents whose answer counts as taken; another class begins where its incident began."""
        for number in state.waiting:
            before, incident = self._answered.get(number), find(state, number)
            if before is None or incident is None or before.attempt != state.attempt:
                continue
            if incident.cls in before.classes:
                state = put(state, incident._replace(stage="probation") if incident.live else incident)
                state = state._replace(waiting=tuple(w for w in state.waiting if w != number))
            else:
                state = put(state, incident._replace(rung=before.rung))
        return state

    def _note(self, state: State, decision: Decision) -> None:
        incident = find(state, decision.incident)
        if incident is not None:
            before = self._answered.get(incident.id)
            classes = before.classes if before and before.attempt == state.attempt else frozenset()
            rung = before.rung if classes and before else incident.rung
            self._answered[incident.id] = Answered(state.attempt, classes | {incident.cls}, rung)
        self.decisions.append(decision)

    def _collect(self, before: State, after: State) -> None:
        """What the state lets go of its incidents is kept here."""
        old, new = before.incidents, after.incidents
        if old and new and old[0].id != new[0].id:
            self.incidents |= {incident.id: incident for incident in old if incident.id < new[0].id}
