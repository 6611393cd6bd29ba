"""A page for every code: the rules' own docstrings, and those of what the text itself can have wrong."""

from difflib import get_close_matches
from typing import NamedTuple

from orchestrator.errors import ConfigError
from orchestrator.review.lint.rules import RULES


class Page(NamedTuple):
    """What `--explain CODE` tells."""

    code: str
    severity: str
    title: str
    text: str


_TEXT = {
    "ORC001": (
        "Not YAML",
        "The text cannot be read as YAML 1.2: an indentation, a bracket or a quote is wrong, or a tab stands\n"
        "where only blanks may. Reading ends at the first such place; mend it and lint again.",
    ),
    "ORC002": (
        "A duplicate key",
        "The same key stands twice in one mapping. Many readers silently take the last; here it is an error,\n"
        "because one of the two values is not what its author thinks is in force.",
    ),
    "ORC003": (
        "Not part of the grammar",
        "Anchors, aliases, tags and keys that are not plain words have no place in a policy: what is in force\n"
        "must be readable where it stands. Write values out; share them by `extends`.",
    ),
    "ORC004": (
        "Not a policy",
        "The file cannot be read as UTF-8 text, or holds no mapping of keys. The smallest policy is `version:\n1`.",
    ),
    "ORC006": (
        "extends cannot be followed",
        "`extends` takes the name (not a path) of one policy of the same folder, or of a shipped one; a chain\n"
        "of them must not come back to itself.",
    ),
    "ORC007": (
        "Not an override",
        "An override is KEY.KEY=VALUE, for example `limits.rollbacks.max=2`; the value is YAML 1.2. Quote the\n"
        "whole argument in the shell when it holds blanks or brackets: 'checkpoints.every=500 steps'.",
    ),
    "ORC008": (
        "An allowance that is incomplete",
        "A finding is allowed by `# orchestrate: allow ORC123 because ...` at the end of its line or on the\n"
        "line above. The reason is not optional: it is what the reviewer reads.",
    ),
    "ORC009": (
        "An allowance of nothing",
        "Nothing of this code is found on this line (any more). Take the comment out, so that it hides\nnothing later.",
    ),
    "ORC010": (
        "An unknown key",
        "The schema has no such key here. `orchestrate schema` prints what there is; editors complete from\nit.",
    ),
    "ORC011": (
        "A key is missing",
        "This mapping needs a key that is not there.",
    ),
    "ORC012": (
        "A name without a plug-in",
        "A detector's kind or a verb is the name of a file in the plug-in's folder. This installation has\n"
        "none of that name; the message lists those it has.",
    ),
    "ORC013": (
        "A value of the wrong kind",
        "Units stand in the value: `500 steps`, `30m`, `2B tokens`, `3%`. Words are those of the message.\n"
        "Numbers are YAML 1.2: `1e-4` is a number, `no` and `on` are words.",
    ),
    "ORC020": (
        "A case file that cannot be read",
        "A case is a mapping of series (`loss: 3.2-0.001x200 9x3`) with `expect:`, the list of incidents that\n"
        "must come of them; an empty list asserts silence.",
    ),
    "ORC200": (
        "The job's configuration cannot be used",
        "`--conf` names a run configuration (as for `orchestrate run conf=...`), and it cannot be composed: a\n"
        "key is still `???`, a group does not exist, or a plug-in's name is unknown.",
    ),
}


def pages() -> tuple[Page, ...]:
    """Every page, by code."""
    text = [Page(code, "error", title, body) for code, (title, body) in _TEXT.items()]
    return tuple(sorted([*text, *(Page(rule.code, rule.severity, rule.title, rule.page) for rule in RULES)]))


def explained(code: str) -> str:
    """The page of a code as text; ConfigError for an unknown one."""
    known = {page.code: page for page in pages()}
    page = known.get(code.upper())
    if page is None:
        near = get_close_matches(code.upper(), known, 1, 0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"there is no code {code}; {hint}known are {', '.join(known)}")
    return f"{page.code} ({page.severity}): {page.title}\n\n{page.text}"
