"""Policy files: YAML to Policy, every error at once with its file, line and column.

A policy may extend one policy of its own folder; mappings merge key by key, everything else is replaced.
Overrides from the command line are one more layer, and errors in them point at the override.
"""

import dataclasses
import hashlib
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import ruamel.yaml  # noqa: F401  (loaded before pydantic: both are needed, this order is the quicker one)
from pydantic import ConfigDict, TypeAdapter, ValidationError

from orchestrator import registry
from orchestrator.core import policy as schema
from orchestrator.core.facts import VERBS
from orchestrator.core.policy import Policy
from orchestrator.errors import PluginError, PolicyError
from orchestrator.store import yaml_text
from orchestrator.store.yaml_text import Finding, Mark, Text

PACKAGE = Path(__file__).resolve().parent.parent
_NAME = re.compile(r"[A-Za-z0-9_-]+")
CHAIN = 10  # policies that may stand above one another


@dataclass(frozen=True)
class Loaded:
    """A policy in force: the values as written (merged), where each came from, and the policy itself."""

    file: str
    raw: dict[str, Any]
    origin: dict[yaml_text.Path, Mark]
    policy: Policy | None
    findings: tuple[Finding, ...]
    texts: dict[str, str]

    @property
    def digest(self) -> str:
        """Names the merged policy: the same in force, the same digest."""
        return hashlib.sha256(yaml_dump(self.raw).encode()).hexdigest()[:16]


def shipped() -> Path:
    """The folder of the policies that come with the product."""
    inside = PACKAGE / "policies"
    return inside if inside.is_dir() else PACKAGE.parent / "policies"


def locate(name: str, root: Path | None = None) -> Path:
    """A policy by path, by name in the project's policies/, or by name among the shipped ones."""
    given = Path(name)
    candidates = [given, *([root / given] if root else [])]
    if _NAME.fullmatch(name):
        folders = [*([root / "policies"] if root else []), Path("policies"), shipped()]
        candidates += [folder / f"{name}.yaml" for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    known = sorted(path.stem for path in shipped().glob("*.yaml") if not path.stem.endswith(".cases"))
    near = get_close_matches(Path(name).stem, known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise PolicyError(f"{name}: there is no such policy; {hint}shipped are {', '.join(known)}")


def read(name: str, root: Path | None = None, overrides: Sequence[str] = ()) -> Policy:
    """The policy in force, or PolicyError with every finding, one a line."""
    return checked(load(locate(name, root), overrides))


def checked(loaded: Loaded) -> Policy:
    """The policy of a loaded text, or PolicyError."""
    if loaded.policy is None:
        raise PolicyError("\n".join(map(str, loaded.findings)))
    return loaded.policy


def load(path: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read a policy file with all that it extends; findings instead of exceptions."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        return _failed(str(path), [Finding(Mark(str(path), 1, 1), "ORC004", f"cannot be read: {reason}")])
    return load_text(source, str(path), path.parent, overrides)


def load_text(source: str, file: str, folder: Path | None, overrides: Sequence[str] = ()) -> Loaded:
    """Read a policy text; `extends` is looked for in `folder` (nowhere when it is None)."""
    layers, findings = _layers(source, file, folder)
    layers += [_override(text, findings) for text in overrides]
    raw: dict[str, Any] = {}
    origin: dict[yaml_text.Path, Mark] = {}
    for layer in layers:
        findings += layer.findings
        if isinstance(layer.value, dict):
            _merge(raw, origin, layer, layer.value, ())
        elif not layer.findings:
            findings.append(Finding(Mark(layer.file, 1, 1), "ORC004", "a policy is a mapping of keys"))
    raw.pop("extends", None)
    policy = None
    if not findings or raw:
        policy = _validate(raw, origin, file, findings)
    texts = {layer.file: source for layer in layers[:1]}
    findings = list(dict.fromkeys(findings))
    findings.sort(key=lambda f: (f.mark.file != file, f.mark.file, f.mark.line, f.mark.column))
    return Loaded(file, raw, origin, policy if not findings else None, tuple(findings), texts)


def _failed(file: str, findings: list[Finding]) -> Loaded:
    return Loaded(file, {}, {}, None, tuple(findings), {})


def _layers(source: str, file: str, folder: Path | None) -> tuple[list[Text], list[Finding]]:
    """The text and all it extends, the base first."""
    layers = [yaml_text.parse(source, file)]
    findings: list[Finding] = []
    seen = {Path(file).stem}
    while isinstance(layers[0].value, dict) and "extends" in layers[0].value:
        name, mark = layers[0].value["extends"], layers[0].mark(("extends",))
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            findings.append(Finding(mark, "ORC006", f"extends takes the name of a policy of the same folder, not {name!r}"))
            break
        if name in seen or len(layers) > CHAIN:
            findings.append(Finding(mark, "ORC006", f"extends goes in a circle: {name!r} is already there"))
            break
        seen.add(name)
        base = _base(name, folder)
        if base is None:
            findings.append(Finding(mark, "ORC006", f"there is no {name}.yaml in the same folder{_near_file(name, folder)}"))
            break
        layers.insert(0, yaml_text.parse(base.read_text(encoding="utf-8"), str(base)))
        folder = base.parent
    return layers, findings


def _base(name: str, folder: Path | None) -> Path | None:
    """`name.yaml` of the folder; a project's policy may also extend a shipped one of that name."""
    for place in (folder, shipped()):
        if place is not None and (place / f"{name}.yaml").is_file():
            return place / f"{name}.yaml"
    return None


def _near_file(name: str, folder: Path | None) -> str:
    known = [path.stem for path in folder.glob("*.yaml")] if folder else []
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _override(text: str, findings: list[Finding]) -> Text:
    """`a.b=VALUE` as a layer of its own; every mark points at the override."""
    key, equals, value = text.partition("=")
    file = f"override {text!r}"
    layer = yaml_text.parse(value, file)
    path = key.split(".")
    if not equals or not all(path):
        findings.append(Finding(Mark(file, 1, 1), "ORC007", "an override is KEY.KEY=VALUE"))
        return Text(file, {})
    inner = layer.value
    mark = Mark(file, 1, len(key) + 2)
    layer.values = dict.fromkeys([(*path, *rest) for rest in layer.values], mark)
    layer.keys = dict.fromkeys([(*path, *rest) for rest in layer.keys], mark)
    for depth in range(len(path), 0, -1):
        inner = {path[depth - 1]: inner}
        layer.keys[tuple(path[:depth])] = Mark(file, 1, 1)
        layer.values.setdefault(tuple(path[:depth]), Mark(file, 1, 1))
    layer.value = inner
    return layer


def _merge(into: dict[str, Any], origin: dict[yaml_text.Path, Mark], layer: Text, value: dict[str, Any], path: yaml_text.Path) -> None:
    for key, item in value.items():
        here = (*path, key)
        if isinstance(item, dict) and isinstance(into.get(key), dict):
            origin[here] = layer.keys.get(here, layer.mark(here))
            _merge(into[key], origin, layer, item, here)
            continue
        into[key] = _copy(item)
        for known in [p for p in origin if p[: len(here)] == here]:
            del origin[known]
        origin[here] = layer.keys.get(here, layer.mark(here))
        for known, mark in layer.values.items():
            if known[: len(here)] == here and known != here:
                origin[known] = layer.keys.get(known, mark)


def _copy(item: Any) -> Any:
    return {key: _copy(inner) for key, inner in item.items()} if isinstance(item, dict) else item


# --- validation --------------------------------------------------------------------------------------


def _dataclasses(module: Any) -> list[type]:
    return [c for c in vars(module).values() if isinstance(c, type) and dataclasses.is_dataclass(c)]


@cache
def adapter() -> TypeAdapter[Policy]:
    """The validator of the whole schema; the core's dataclasses themselves know no pydantic."""
    for cls in _dataclasses(schema):
        cls.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    return TypeAdapter(Policy)


@cache
def _detector_adapter(kind: str) -> TypeAdapter[Any]:
    plugin = registry.load("detectors", kind).Plugin
    plugin.__pydantic_config__ = ConfigDict(extra="forbid")
    return TypeAdapter(plugin)


def _pythonic(value: Any) -> Any:
    """Keys that are Python keywords carry an underscore in the schema."""
    if isinstance(value, dict):
        return {f"{key}_" if keyword.iskeyword(key) else key: _pythonic(item) for key, item in value.items()}
    return tuple(_pythonic(item) for item in value) if isinstance(value, tuple) else value


def _validate(raw: dict[str, Any], origin: dict[yaml_text.Path, Mark], file: str, findings: list[Finding]) -> Policy | None:
    try:
        policy = adapter().validate_python(_pythonic(raw))
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            findings.append(_finding(problem, raw, origin, file))
        policy = None
    specs = {}
    for name, spec in _mapping(raw.get("detectors")).items():
        if (made := _detector(name, spec, origin, file, findings)) is not None:
            specs[name] = made
    _verbs(raw, origin, file, findings)
    return dataclasses.replace(policy, detectors=specs) if policy is not None else None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _detector(name: str, spec: Any, origin: dict[yaml_text.Path, Mark], file: str, findings: list[Finding]) -> dict[str, object] | None:
    path: yaml_text.Path = ("detectors", name)
    if not isinstance(spec, dict) or "kind" not in spec:
        if isinstance(spec, dict):
            findings.append(Finding(_mark(origin, path, file), "ORC011", f"detector {name!r} lacks its kind"))
        return None
    try:
        made = _detector_adapter(str(spec["kind"])).validate_python({k: v for k, v in spec.items() if k != "kind"})
    except PluginError as error:
        findings.append(Finding(_mark(origin, (*path, "kind"), file), "ORC012", str(error)))
        return None
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            problem["loc"] = (*path, *problem["loc"])
            findings.append(_finding(problem, {"detectors": {name: spec}}, origin, file, _fields(made_type(spec))))
        return None
    return {"kind": spec["kind"], **{f.name: getattr(made, f.name) for f in dataclasses.fields(made)}}


def made_type(spec: dict[str, Any]) -> type:
    """The plug-in class of a detector's spec."""
    plugin: type = registry.load("detectors", str(spec["kind"])).Plugin
    return plugin


def _fields(cls: type) -> list[str]:
    return [f.name.rstrip("_") for f in dataclasses.fields(cls)]  # type: ignore[arg-type]


def _verbs(raw: dict[str, Any], origin: dict[yaml_text.Path, Mark], file: str, findings: list[Finding]) -> None:
    """A verb of the grammar that this installation has no plug-in for."""
    known = registry.names("actions")
    for path, mark in origin.items():
        word = path[-1] if isinstance(path[-1], str) else _at(raw, path)
        if "respond" in path and isinstance(word, str) and word in VERBS and word not in known:
            findings.append(Finding(mark, "ORC012", f"the verb {word!r} is not available here; known are {', '.join(known)}"))


def _at(raw: Any, path: yaml_text.Path) -> Any:
    for part in path:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return None
    return raw


def _mark(origin: dict[yaml_text.Path, Mark], path: yaml_text.Path, file: str) -> Mark:
    while path and path not in origin:
        path = path[:-1]
    return origin.get(path, Mark(file, 1, 1))


def _finding(problem: Any, raw: Any, origin: dict[yaml_text.Path, Mark], file: str, known: list[str] | None = None) -> Finding:
    """One of the validator's errors in our words, at the place where the value was written."""
    path = _written(raw, problem["loc"])
    mark = _mark(origin, path, file)
    name, kind = ".".join(map(str, path)), problem["type"]
    if kind == "unexpected_keyword_argument":
        key = str(problem["loc"][-1]).rstrip("_")
        near = get_close_matches(key, known if known is not None else _siblings(path[:-1]), 1)
        return Finding(mark, "ORC010", f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    if kind == "missing":
        return Finding(mark, "ORC011", f"{name or 'the policy'} lacks {str(problem['loc'][-1]).rstrip('_')!r}")
    message = problem["msg"].removeprefix("Value error, ")
    if kind == "literal_error":
        options = re.findall(r"'([^']*)'", str(problem["ctx"]["expected"]))
        near = get_close_matches(str(problem["input"]), options, 1)
        message = f"{problem['input']!r} is none of {', '.join(options)}" + (f"; did you mean {near[0]!r}?" if near else "")
    elif kind in ("dataclass_type", "dict_type", "mapping_type"):
        message = f"expected a mapping, got {problem['input']!r}"
    return Finding(mark, "ORC013", f"{name}: {message}")


def _written(raw: Any, location: tuple[Any, ...]) -> yaml_text.Path:
    """The validator's location as a path of the text: a key without its underscore, a verb's own key for its fields."""
    path: list[str | int] = []
    for part in location:
        if isinstance(part, str) and isinstance(raw, dict) and part not in raw and part.rstrip("_") in raw:
            part = part.rstrip("_")
        if isinstance(raw, dict) and part in raw or isinstance(raw, tuple) and isinstance(part, int) and part < len(raw):
            path.append(part)
            raw = raw[part]
        elif isinstance(raw, dict) and raw and next(iter(raw)) in VERBS and part != "verb":
            path.append(next(iter(raw)))
            raw = raw[next(iter(raw))]
            if isinstance(raw, dict) and part in raw:
                path.append(part)
                raw = raw[part]
    return tuple(path)


def _siblings(path: yaml_text.Path) -> list[str]:
    """The keys that the schema knows below a path."""
    cls: Any = Policy
    for part in path:
        if not dataclasses.is_dataclass(cls):
            return []
        found = {f.name.rstrip("_"): f.type for f in dataclasses.fields(cls)}.get(str(part))
        cls = _class_in(found)
        if cls is None:
            return []
    return _fields(cls) if dataclasses.is_dataclass(cls) else []


def _class_in(annotation: Any) -> Any:
    if dataclasses.is_dataclass(annotation):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (found := _class_in(inner)) is not None:
            return found
    return None


# --- writing -----------------------------------------------------------------------------------------


def yaml_dump(raw: Any, indent: int = 0) -> str:
    """The merged values as policy text: block mappings, flow lists, words quoted only where they must be."""
    lines = []
    for key, value in raw.items():
        if isinstance(value, dict) and value:
            lines.append(f"{' ' * indent}{_word(key)}:\n{yaml_dump(value, indent + 2)}")
        else:
            lines.append(f"{' ' * indent}{_word(key)}: {flow(value)}\n")
    return "".join(lines)


def flow(value: Any) -> str:
    """One value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_word(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return _word(value)


def _word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str):
        return repr(value)
    plain = re.fullmatch(r"[A-Za-z0-9_./%+][A-Za-z0-9_./%+ -]*", value) and scalar_is(value) and value == value.strip()
    return value if plain else "'" + value.replace("'", "''") + "'"


def scalar_is(text: str) -> bool:
    """Whether a plain scalar reads back as the same text."""
    return yaml_text.scalar(text) == text
