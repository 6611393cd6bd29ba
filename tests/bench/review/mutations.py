"""Random mutations of the shipped policies: what a hurried person, a bad merge or a malicious one may write."""

import random
from collections.abc import Iterator

from orchestrator import registry
from orchestrator.review.lint.check import findings
from orchestrator.store.policy_text import load_text, shipped
from orchestrator.store.policy_unparse import unparsed
from orchestrator.store.policy_write import yaml_dump

TOKENS = (
    "nan", "1e999", "99999999999999999999 steps", "9" * 400 + " steps", "[]", "{}", "null", "*a", "&a x", "-0%",
    "!!python/name:os", "0x10", "0 steps", "1e-4", "no", "on: ", "~", "'", '"', "{lr: 50%", "[[hold]]", "- [rollback]",
    "500 stpes", "101%", "2B tokens", "auto", "30m", "\t", "\u2028", "\x00", "\ufeff", "é", "<<: *x", "? a", "- ",
    "# orchestrate: allow ORC130 because ", "%YAML 1.1\n---\n", "---\n", "...\n", "[" * 60, "{a: " * 60, "true",
    "extends: base\n", "kind: robust_z", "1.5",
)  # fmt: skip
CHARACTERS = "abcz019%:{}[],-#&*!|>'\" \n\t.?~\\/é\u200b\x07"


def mutated(texts: list[str], source: random.Random) -> str:
    """One text with one to five changes."""
    text = source.choice(texts)
    for _ in range(source.randint(1, 5)):
        text = source.choice(CHANGES)(text, texts, source)
    return text


def _delete(text: str, texts: list[str], source: random.Random) -> str:
    at = source.randrange(len(text) + 1)
    return text[:at] + text[at + source.choice((1, 1, 1, 5, 40)) :]


def _insert(text: str, texts: list[str], source: random.Random) -> str:
    at = source.randrange(len(text) + 1)
    return text[:at] + source.choice(CHARACTERS) + text[at:]


def _token(text: str, texts: list[str], source: random.Random) -> str:
    words = text.split(" ")
    words[source.randrange(len(words))] = source.choice(TOKENS)
    return " ".join(words)


def _line(text: str, texts: list[str], source: random.Random) -> str:
    """A line is lost, doubled, moved, indented, or comes from another policy."""
    lines = text.split("\n")
    at, other = source.randrange(len(lines)), source.randrange(len(lines))
    match source.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = source.choice(("  ", " ", "\t", "")) + lines[at].strip(" " if source.random() < 0.5 else "")
        case 4:
            lines.insert(at, source.choice(source.choice(texts).split("\n")))
    return "\n".join(lines)


def _splice(text: str, texts: list[str], source: random.Random) -> str:
    other = source.choice(texts)
    return text[: source.randrange(len(text) + 1)] + other[source.randrange(len(other)) :]


CHANGES = (_delete, _insert, _insert, _token, _token, _token, _line, _line, _line, _splice)


def policies() -> list[str]:
    """The texts of the shipped policies."""
    return [p.read_text("utf-8") for p in sorted(shipped().glob("*.yaml")) if not p.stem.endswith(".cases")]


def some(count: int, seed: int) -> Iterator[str]:
    """So many mutated texts."""
    source, texts = random.Random(seed), policies()
    for _ in range(count):
        yield mutated(texts, source)


def checked(text: str) -> bool:
    """Whether lint accepts a text; AssertionError when the loader then does otherwise."""
    loaded = load_text(text, "fuzz.yaml", shipped())
    wrong = [finding for finding in findings(loaded) if finding.code < "ORC100" and finding.severity == "error"]
    if loaded.policy is None:
        assert wrong, f"the loader refuses what lint accepts: {loaded.findings}"
        return False
    registry.bind(loaded.policy)
    again = load_text(yaml_dump(loaded.raw), "again.yaml", None)
    assert again.policy == loaded.policy, f"what a journal would keep is not the policy: {again.findings}"
    whole = load_text(yaml_dump(unparsed(loaded.policy)), "whole.yaml", None)
    assert whole.policy == loaded.policy, f"written out it is not the policy: {whole.findings}"
    return True
