"""YAML 1.2 with positions: plain values, and for every path in them the place it was written at.

`on` and `no` are words, `1e-4` is a number. Anchors, aliases, tags and duplicate keys are errors; all
errors of a text are found, except that a text which does not scan ends at its first.
"""

import io
import re
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Path: TypeAlias = tuple[str | int, ...]
MAX_DEPTH = 40
MAX_CHARS = 1_000_000

_INT = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


class Mark(NamedTuple):
    """A place in a text, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Finding(NamedTuple):
    """One thing wrong, or worth a word, at its place."""

    mark: Mark
    code: str
    message: str
    severity: str = "error"

    def __str__(self) -> str:
        return f"{self.mark} {self.code} {self.message}"


@dataclass
class Text:
    """What a text holds: its value, the marks of keys and of values by path, and what is wrong with it."""

    file: str
    value: Any = None
    source: str = field(default="", repr=False)
    keys: dict[Path, Mark] = field(default_factory=dict)
    values: dict[Path, Mark] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def mark(self, path: Path) -> Mark:
        """The nearest place that is known for a path."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Mark(self.file, 1, 1))


def scalar(text: str) -> object:
    """A plain scalar by YAML 1.2's core schema.

    >>> [scalar(t) for t in ("1e-4", "no", "12", "~", "true")]
    [0.0001, 'no', 12, None, True]
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) and len(text) < 400:
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def parse(source: str, file: str) -> Text:
    """Read one document."""
    text = Text(file, source=source)
    if len(source) > MAX_CHARS:
        text.findings.append(Finding(Mark(file, 1, 1), "ORC001", "the file is too large for a policy"))
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor used twice is one of our findings
            node = YAML(typ="safe", pure=True).compose(io.StringIO(source))
    except MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(file, at.line + 1, at.column + 1) if at else Mark(file, 1, 1)
        text.findings.append(Finding(mark, "ORC001", f"not YAML: {error.problem or error.context}"))
        return text
    except (YAMLError, ValueError, RecursionError) as error:
        text.findings.append(Finding(Mark(file, 1, 1), "ORC001", f"not YAML: {str(error).splitlines()[0]}"))
        return text
    text.value = None if node is None else _value(text, node, ())
    return text


def _value(text: Text, node: Node, path: Path) -> object:
    mark = Mark(text.file, node.start_mark.line + 1, node.start_mark.column + 1)
    text.values[path] = mark
    if node.anchor is not None:
        text.findings.append(Finding(mark, "ORC003", "anchors and aliases are not part of a policy; write it out"))
        return None
    if len(path) > MAX_DEPTH:
        text.findings.append(Finding(mark, "ORC001", "nested too deeply"))
        return None
    if isinstance(node, MappingNode):
        _no_tag(text, node, mark, "tag:yaml.org,2002:map")
        return _mapping(text, node, path)
    if isinstance(node, SequenceNode):
        _no_tag(text, node, mark, "tag:yaml.org,2002:seq")
        return tuple(_value(text, item, (*path, i)) for i, item in enumerate(node.value))
    if not isinstance(node, ScalarNode) or node.style not in (None, ""):
        _no_tag(text, node, mark, "tag:yaml.org,2002:str")
        return str(node.value)
    if not str(node.tag).startswith("tag:yaml.org,2002:"):
        _no_tag(text, node, mark, "")
    return scalar(node.value)


def _no_tag(text: Text, node: Node, mark: Mark, usual: str) -> None:
    if str(node.tag) != usual:
        text.findings.append(Finding(mark, "ORC003", f"tag {node.tag} is not part of a policy"))


def _mapping(text: Text, node: MappingNode, path: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for key_node, value_node in node.value:
        mark = Mark(text.file, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        if not isinstance(key_node, ScalarNode) or key_node.anchor is not None:
            text.findings.append(Finding(mark, "ORC003", "a key must be a plain word"))
            continue
        key = str(key_node.value)
        if key in found:
            first = text.keys[(*path, key)]
            text.findings.append(Finding(mark, "ORC002", f"duplicate key {key!r}, first at line {first.line}"))
            continue
        text.keys[(*path, key)] = mark
        found[key] = _value(text, value_node, (*path, key))
    return found
