"""A run's state from its journal: `evolve` folded over the facts, under the policy that was in force at each."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from orchestrator import registry
from orchestrator.core.evolve import adopt, evolve
from orchestrator.core.facts import Supervised
from orchestrator.core.policy import Rules
from orchestrator.core.state import State, first
from orchestrator.store.journal import Record
from orchestrator.store.policy_text import checked, load_text


class Recorded(NamedTuple):
    """What a journal tells: the rules now in force with their policy's digest, and the state."""

    rules: Rules
    digest: str
    state: State


def rules_of(header: dict[str, Any]) -> Rules:
    """The rules of a recorded run, from the policy text in its header."""
    return registry.bind(checked(load_text(header["policy"], str(header.get("policy_file", "policy")), None)))


def fold(header: dict[str, Any], records: Iterable[Record]) -> Recorded:
    """The state after all records; the past is not decided again."""
    rules, digest = rules_of(header), str(header.get("digest", ""))
    state = first(rules)
    for record in records:
        fact = record.fact
        if isinstance(fact, Supervised) and fact.text:
            changed = rules_of({**header, "policy": fact.text})
            rules, digest, state = changed, fact.policy, adopt(rules, changed, state)
        state = evolve(rules, state, fact)
    return Recorded(rules, digest, state)
