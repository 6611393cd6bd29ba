"""A run's own journal under its own policy: every decision is made anew and held against the recorded one."""

from typing import Any

from orchestrator.core.decide import plan
from orchestrator.core.evolve import evolve
from orchestrator.core.facts import Decision, Fact, Supervised
from orchestrator.core.lifecycle import adopt
from orchestrator.core.rules import Rules
from orchestrator.core.state import Incident, State, first
from orchestrator.store.journal import to_json
from orchestrator.store.recorded import rules_of


class Retracing:
    """Follows the recorded decisions; `difference` is the first one that comes out otherwise now."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.state: State = first(rules)
        self.decisions: list[Decision] = []
        self.incidents: dict[int, Incident] = {}
        self.difference: dict[str, Any] | None = None
        self._begun = False

    def hear(self, fact: Fact) -> None:
        """One journaled fact; a crash between a fact and its decision is made good at the next take-up."""
        state = self.state
        if isinstance(fact, Decision):
            self._compare(plan(self.rules, state), fact)
            self.decisions.append(fact)
        elif self._begun and not isinstance(fact, Supervised):
            self._compare(plan(self.rules, state), None)
        self._begun = True
        if isinstance(fact, Supervised) and fact.text:
            state = self._adopted(fact.text)
        self.state = evolve(self.rules, state, fact)
        old, new = state.incidents, self.state.incidents
        if old is not new and old and old[0].id != new[0].id:
            self.incidents |= {incident.id: incident for incident in old if incident.id < new[0].id}

    def _adopted(self, text: str) -> State:
        """The run was taken up under a changed policy: from here on that one is in force."""
        before, self.rules = self.rules, rules_of({"policy": text})
        return adopt(before, self.rules, self.state)

    def all_incidents(self) -> list[Incident]:
        """Every incident as it stood last, by number; those merged into another left out."""
        known = self.incidents | {incident.id: incident for incident in self.state.incidents}
        return [known[number] for number in sorted(known) if known[number].merged is None]

    def _compare(self, now: Decision | None, recorded: Decision | None) -> None:
        if now != recorded and self.difference is None:
            self.difference = {
                "step": self.state.step,
                "attempt": self.state.attempt,
                "recorded": to_json(recorded) if recorded else None,
                "recomputed": to_json(now) if now else None,
            }
