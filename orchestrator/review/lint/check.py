"""The whole check of one policy text: its grammar, its rules, and what the text itself allows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.review.lint.allow import allowed
from orchestrator.review.lint.rules import RULES
from orchestrator.review.lint.subject import Subject
from orchestrator.store import policy_text, yaml_text
from orchestrator.store.policy_text import Loaded
from orchestrator.store.yaml_text import Finding

if TYPE_CHECKING:
    from orchestrator.config import Config


def lint(path: Path, overrides: Sequence[str] = (), config: "Config | None" = None) -> list[Finding]:
    """Every finding of a policy file, in the order of the text; never raises for what a text holds."""
    return findings(policy_text.load(path, overrides), config)


def findings(loaded: Loaded, config: "Config | None" = None) -> list[Finding]:
    """Every finding of a loaded policy."""
    found = list(loaded.findings)
    if loaded.sound is not None:
        found += _by_rules(Subject(loaded, loaded.sound, config), loaded.wrong)
    remaining = allowed(found, loaded.layers, loaded.file)
    return sorted(dict.fromkeys(remaining), key=lambda f: (f.mark.file != loaded.file, *f.mark, f.code))


def _by_rules(subject: Subject, wrong: frozenset[yaml_text.Path]) -> list[Finding]:
    """What the rules find; beside errors of the schema only what this very text says elsewhere."""
    found = []
    for rule in RULES:
        for problem in rule.find(subject):
            mark = subject.mark(problem.path)
            unsure = subject.loaded.policy is None and mark.file != subject.loaded.file
            if not unsure and not any(_related(problem.path, path) for path in wrong):
                found.append(Finding(mark, rule.code, problem.message, rule.severity))
    return found


def _related(one: yaml_text.Path, other: yaml_text.Path) -> bool:
    """Whether one path leads through the other."""
    size = min(len(one), len(other))
    return one[:size] == other[:size]
