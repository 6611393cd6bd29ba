"""Clauses that differ between two policies, by meaning: spelling, order and place of keys are no change."""

import dataclasses
import inspect
from typing import Any, NamedTuple

from orchestrator.core.policy import Policy
from orchestrator.review.lint.weaker_rules import LIMITS, PROOF, SEEN
from orchestrator.store.policy_schema import below_key
from orchestrator.store.policy_unparse import unparsed
from orchestrator.store.policy_write import flow

_WORSE = {clause.path: clause.worse for clause in (*SEEN, *LIMITS, *PROOF)}


_ORDINAL = {"1": "first", "2": "second", "3": "third"}


class Clause(NamedTuple):
    """One difference: what it was, what it is (None: not there), what it is about, and which way it goes."""

    path: str
    old: str | None
    new: str | None
    meaning: str
    effect: str = ""


def changed(old: Policy, new: Policy) -> list[Clause]:
    """Every clause that differs, in the order of the schema."""
    before, after = _flat(unparsed(old)), _flat(unparsed(new))
    order = list(dict.fromkeys((*before, *after)))
    found = [_clause(old, new, path, before.get(path), after.get(path)) for path in order]
    clauses = [clause for clause in found if clause.old != clause.new]
    if list(old.phases) != list(new.phases) and sorted(old.phases) == sorted(new.phases):
        orders = (", ".join(old.phases), ", ".join(new.phases))
        clauses.append(Clause("phases", *orders, "Data phases follow one another in the order of the text."))
    return clauses


def _flat(raw: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """Every leaf by its path; a ladder's rungs are leaves."""
    if isinstance(raw, dict) and raw:
        return {key: value for name, item in raw.items() for key, value in _flat(item, (*path, name)).items()}
    if path and path[-1] == "respond" and isinstance(raw, tuple) and "spikes" in path:
        return {(*path, f"rung {i}"): flow(rung) for i, rung in enumerate(raw, 1)}
    return {path: flow(raw)} if path and raw != {} else {}


def _clause(old: Policy, new: Policy, path: tuple[str, ...], before: str | None, after: str | None) -> Clause:
    name = ".".join(path)
    effect = ""
    if name in _WORSE and before is not None and after is not None:
        now, then = _number(new, path), _number(old, path)
        effect = "looser" if (now - then) * _WORSE[name] > 0 else "stricter"
    elif path[0] == "detectors" and after is None:
        effect = "looser"
    elif path[0] == "failures" and path[-1] == "max" and before is not None and after is not None:
        effect = "looser" if int(after) > int(before) else "stricter"
    return Clause(name, before, after, _meaning(path), effect)


def _number(policy: Policy, path: tuple[str, ...]) -> float:
    value: Any = policy
    for part in path:
        value = getattr(value, f"{part}_" if part in ("for", "from") else part)
    return float(value)


def _meaning(path: tuple[str, ...]) -> str:
    """What the schema says of the class that a key belongs to; of a rung, which recurrence it answers."""
    number = path[-1].removeprefix("rung ")
    rung = path[-1] != number
    cls: Any = Policy
    for part in path[: -2 if rung else -1]:
        inner = below_key(cls, part)
        if dataclasses.is_dataclass(inner):
            cls = inner
    text = inspect.getdoc(cls) or ""
    meaning = "" if cls is Policy else text.splitlines()[0]
    if rung:
        return f"{meaning.removesuffix('.')}: what is done the {_ORDINAL.get(number, number + 'th')} time."
    return f"{meaning.removesuffix('.')}: what is done." if path[-1] == "respond" else meaning
