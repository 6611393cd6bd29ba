"""A run's state from its journal: `evolve` folded over the facts, under the policy that was in force at each."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator import registry
from orchestrator.core.evolve import evolve
from orchestrator.core.facts import Fact, Supervised
from orchestrator.core.lifecycle import adopt
from orchestrator.core.rules import Rules
from orchestrator.core.state import State, first
from orchestrator.store.journal import Record, Tail, header_of
from orchestrator.store.policy_text import checked, load_text


class Recorded(NamedTuple):
    """What a journal tells: the rules now in force with their policy's digest, and the state."""

    rules: Rules
    digest: str
    state: State


def rules_of(header: dict[str, Any]) -> Rules:
    """The rules of a recorded run, from the policy text in its header."""
    return registry.bind(checked(load_text(header["policy"], str(header.get("policy_file", "policy")), None)))


def begun(header: dict[str, Any]) -> Recorded:
    """Before any record."""
    rules = rules_of(header)
    return Recorded(rules, str(header.get("digest", "")), first(rules))


def after(header: dict[str, Any], now: Recorded, fact: Fact) -> Recorded:
    """One fact on: a supervisor that came with another policy is where the rules change."""
    rules, digest, state = now
    if isinstance(fact, Supervised) and fact.text:
        changed = rules_of({**header, "policy": fact.text})
        rules, digest, state = changed, fact.policy, adopt(rules, changed, state)
    return Recorded(rules, digest, evolve(rules, state, fact))


def fold(header: dict[str, Any], records: Iterable[Record], start: Recorded | None = None) -> Recorded:
    """The state after all records; the past is not decided again."""
    now = start or begun(header)
    for record in records:
        now = after(header, now, record.fact)
    return now


class Follower:
    """Follows a journal that another process writes."""

    def __init__(self, path: Path) -> None:
        """From its beginning; RunDirError where there is none or it is damaged."""
        self._path, self._header = path, header_of(path)
        self._tail = Tail(path)
        self.now = begun(self._header)

    def news(self) -> Iterator[Fact]:
        """What was written since the last call; `now` is what is known after each fact while it is passed on."""
        for record in self._tail.news():
            self.now = after(self._header, self.now, record.fact)
            yield record.fact
