"""From merged values to a Policy: every error at once, in our words, at the place where the value was written.

The core's dataclasses are the schema; pydantic validates them from here, so the core knows no pydantic.
"""

import dataclasses
import keyword
import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

import ruamel.yaml  # noqa: F401  (loaded before pydantic: both are needed, this order is the quicker one)
from pydantic import ConfigDict, TypeAdapter, ValidationError

from orchestrator import registry
from orchestrator.core import policy as schema
from orchestrator.core.facts import VERBS
from orchestrator.core.policy import Policy
from orchestrator.errors import PluginError
from orchestrator.store import yaml_text
from orchestrator.store.policy_layers import Origin, Place
from orchestrator.store.policy_write import flow
from orchestrator.store.yaml_text import Finding, Mark

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
ROUNDS = 8  # of leaving out what is wrong, until the rest is a policy


class Checked(NamedTuple):
    """What validation found; `policy` is the part that is right, whole only when there are no findings."""

    policy: Policy | None
    findings: tuple[Finding, ...]
    wrong: frozenset[yaml_text.Path] = frozenset()


@cache
def adapter() -> TypeAdapter[Policy]:
    """The validator of the whole schema."""
    for cls in vars(schema).values():
        if isinstance(cls, type) and dataclasses.is_dataclass(cls):
            cls.__pydantic_config__ = _STRICT  # type: ignore[attr-defined]
    return TypeAdapter(Policy)


@cache
def detector_adapter(kind: str) -> TypeAdapter[Any]:
    """The validator of one kind of detector; PluginError for an unknown one."""
    plugin = registry.load("detectors", kind).Plugin
    plugin.__pydantic_config__ = _STRICT
    return TypeAdapter(plugin)


def check(raw: dict[str, Any], origin: Origin, file: str) -> Checked:
    """Validate merged values; all findings, and the policy of what is right."""
    words = Words(raw, origin, file)
    policy = None
    findings: list[Finding] = []
    wrong: set[yaml_text.Path] = set()
    rest: Any = raw
    for _ in range(ROUNDS):
        try:
            policy = adapter().validate_python(_pythonic(rest))
            break
        except ValidationError as error:
            problems = error.errors(include_url=False)
        if rest is raw:
            findings += [words.finding(problem) for problem in problems]
        paths = [written(rest, problem["loc"]) for problem in problems]
        wrong |= set(paths) if rest is raw else set()
        rest = _without(rest, paths)
    specs = {}
    for name, spec in _mapping(raw.get("detectors")).items():
        if (made := _detector(name, spec, words, findings)) is not None:
            specs[name] = made
    findings += [words.guessed(path) for path in _guessed(raw, policy) if path not in wrong]
    findings += _unknown_verbs(words)
    policy = dataclasses.replace(policy, detectors=specs) if policy is not None else None
    return Checked(policy, tuple(findings), frozenset(wrong))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _pythonic(value: Any) -> Any:
    """Keys that are Python keywords carry an underscore in the schema."""
    if isinstance(value, dict):
        return {f"{key}_" if keyword.iskeyword(key) else key: _pythonic(item) for key, item in value.items()}
    return tuple(_pythonic(item) for item in value) if isinstance(value, tuple) else value


def _without(value: Any, paths: list[yaml_text.Path]) -> Any:
    """The values without what stands at these paths."""
    if any(not path for path in paths):
        return {} if isinstance(value, dict) else ()
    if isinstance(value, dict):
        return {
            key: _without(item, [path[1:] for path in paths if path[0] == key])
            for key, item in value.items()
            if (key,) not in paths
        }
    if isinstance(value, tuple):
        kept = [(i, item) for i, item in enumerate(value) if (i,) not in paths]
        return tuple(_without(item, [path[1:] for path in paths if path[0] == i]) for i, item in kept)
    return value


def _guessed(raw: Any, made: Any, path: yaml_text.Path = ()) -> Iterator[yaml_text.Path]:
    """Where the validator made a boolean of a word or of a number, or a number of a boolean: no reader would."""
    if isinstance(raw, dict):
        for key, item in raw.items():
            name = f"{key}_" if keyword.iskeyword(key) else key
            inner = made.get(key) if isinstance(made, dict) else getattr(made, name, None)
            yield from _guessed(item, inner, (*path, key))
    elif isinstance(made, bool | int | float) and isinstance(raw, bool) != isinstance(made, bool):
        yield path


# --- plug-ins ----------------------------------------------------------------------------------------


def _detector(name: str, spec: Any, words: "Words", findings: list[Finding]) -> dict[str, object] | None:
    path: yaml_text.Path = ("detectors", name)
    if not isinstance(spec, dict):
        return None  # the schema says so already
    if "kind" not in spec:
        findings.append(Finding(words.mark(path), "ORC011", f"detector {name!r} lacks its kind"))
        return None
    try:
        validator = detector_adapter(str(spec["kind"]))
        made = validator.validate_python({key: value for key, value in spec.items() if key != "kind"})
    except PluginError as error:
        findings.append(Finding(words.value((*path, "kind")), "ORC012", str(error)))
        return None
    except ValidationError as error:
        known = _fields(registry.load("detectors", str(spec["kind"])).Plugin)
        for problem in error.errors(include_url=False):
            problem["loc"] = (*path, *problem["loc"])
            findings.append(words.finding(problem, known))
        return None
    findings += [words.guessed(where) for where in _guessed(spec, made, path)]
    return {"kind": spec["kind"], **{f.name: getattr(made, f.name) for f in dataclasses.fields(made)}}


def _fields(cls: Any) -> list[str]:
    return [f.name.rstrip("_") for f in dataclasses.fields(cls)]


def _unknown_verbs(words: "Words") -> list[Finding]:
    """Verbs of the grammar that this installation has no plug-in for."""
    known = registry.names("actions")
    findings = []
    for path, place in words.origin.items():
        word = path[-1] if isinstance(path[-1], str) else _at(words.raw, path)
        if "respond" in path and isinstance(word, str) and word in VERBS and word not in known:
            message = f"the verb {word!r} is not available here; known are {', '.join(known)}"
            findings.append(Finding(place.value if isinstance(path[-1], int) else place.key, "ORC012", message))
    return findings


def _at(raw: Any, path: yaml_text.Path) -> Any:
    for part in path:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return None
    return raw


# --- the validator's errors in our words -------------------------------------------------------------


class Words:
    """Says a problem of the validator in our words, at its place."""

    def __init__(self, raw: dict[str, Any], origin: Origin, file: str) -> None:
        self.raw, self.origin, self.file = raw, origin, file

    def mark(self, path: yaml_text.Path) -> Mark:
        """Where the key of a path stands, or the nearest one above it."""
        return self._place(path).key

    def value(self, path: yaml_text.Path) -> Mark:
        """Where the value of a path stands."""
        return self._place(path).value

    def _place(self, path: yaml_text.Path) -> Place:
        while path and path not in self.origin:
            path = path[:-1]
        top = Mark(self.file, 1, 1)
        return self.origin.get(path, Place(top, top))

    def finding(self, problem: Any, known: list[str] | None = None) -> Finding:
        """One problem; `known` are the keys that are allowed where the schema itself does not tell."""
        path = written(self.raw, problem["loc"])
        mark, kind, name = self.mark(path), problem["type"], ".".join(map(str, path))
        if kind == "unexpected_keyword_argument":
            key = str(problem["loc"][-1]).rstrip("_")
            return Finding(mark, "ORC010", f"unknown key {key!r}" + self._near_key(key, path, known))
        if kind == "missing":
            return Finding(mark, "ORC011", f"{name or 'the policy'} lacks {str(problem['loc'][-1]).rstrip('_')!r}")
        if kind in ("bool_type", "bool_parsing"):
            return self.guessed(path)
        message = _wrong_value(problem)
        return Finding(self.value(path), "ORC013", f"{name}: {message}" if name else message)

    def guessed(self, path: yaml_text.Path) -> Finding:
        """A boolean that was none, or one where a number is wanted."""
        value = _at(self.raw, path)
        wanted = "expected a number, got" if isinstance(value, bool) else "write true or false; got"
        return Finding(self.value(path), "ORC013", f"{'.'.join(map(str, path))}: {wanted} {_short(value)}")

    def _near_key(self, key: str, path: yaml_text.Path, known: list[str] | None) -> str:
        near = get_close_matches(key, known if known is not None else _siblings(path[:-1]), 1)
        return f"; did you mean {near[0]!r}?" if near else ""


def _wrong_value(problem: Any) -> str:
    """The validator's word about a value, in ours."""
    kind, value = problem["type"], problem["input"]
    if kind == "literal_error":
        options = re.findall(r"'([^']*)'|\b(\d+)\b", str(problem["ctx"]["expected"]))
        return _none_of(value, [text or number for text, number in options])
    if kind == "greater_than_equal":
        return f"{_short(value)} is out of range: at least {problem['ctx']['ge']:g}"
    wanted = next((wanted for wanted, kinds in _WANTED.items() if kind in kinds), None)
    return f"expected {wanted}, got {_short(value)}" if wanted else str(problem["msg"].removeprefix("Value error, "))


_WANTED = {
    "a mapping": ("dataclass_type", "dict_type", "mapping_type"),
    "a list": ("tuple_type",),
    "a number": ("float_type", "float_parsing", "finite_number"),
    "a whole number": ("int_type", "int_parsing", "int_from_float"),
}


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, str) else flow(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _none_of(value: object, options: list[str]) -> str:
    near = get_close_matches(str(value), options, 1)
    only = len(options) == 1
    wanted = f"is not {options[0]}" if only else f"is none of {', '.join(options)}"
    return f"{_short(value)} {wanted}" + (f"; did you mean {near[0]!r}?" if near and not only else "")


def written(raw: Any, location: tuple[Any, ...]) -> yaml_text.Path:
    """The validator's location as a path of the text.

    A key loses its underscore; the fields of a response stand below their verb's own key.
    """
    path: list[str | int] = []
    for part in location:
        if isinstance(part, str) and isinstance(raw, dict) and part not in raw and part.rstrip("_") in raw:
            part = part.rstrip("_")
        if _has(raw, part):
            path.append(part)
            raw = raw[part]
        elif isinstance(raw, dict) and raw and next(iter(raw)) in VERBS and part != "verb":
            path.append(next(iter(raw)))
            raw = raw[next(iter(raw))]
            if _has(raw, part):
                path.append(part)
                raw = raw[part]
    return tuple(path)


def _has(raw: Any, part: Any) -> bool:
    if isinstance(raw, dict):
        return part in raw
    return isinstance(raw, tuple) and isinstance(part, int) and part < len(raw)


def _siblings(path: yaml_text.Path) -> list[str]:
    """The keys that the schema knows below a path."""
    cls: Any = Policy
    for part in path:
        cls = below_key(cls, part)
        if cls is None:
            return []
    return _keys(cls) if dataclasses.is_dataclass(cls) else []


def _keys(cls: Any) -> list[str]:
    """A response is written with its verb as the key."""
    return [*_fields(cls), *VERBS] if cls is schema.Response else _fields(cls)


def below_key(cls: Any, part: str | int) -> Any:
    """The class that a key (or an index, or a free name) of a class or of a container leads to."""
    if isinstance(part, int) or (cls is schema.Response and part in VERBS):
        return cls  # an item is what its list holds; a response's options stand below its verb
    if dataclasses.is_dataclass(cls):
        found = {f.name.rstrip("_"): f.type for f in dataclasses.fields(cls)}.get(str(part))
        return found if found is None else _unwrapped(found)
    return _unwrapped(cls)


def _unwrapped(annotation: Any) -> Any:
    """The dataclass inside an annotation such as `Phase | None`, a mapping of them, a ladder."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (found := _unwrapped(inner)) is not None:
            return found
    return None
