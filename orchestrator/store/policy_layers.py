"""The layers of a policy: its text, all that it extends, the overrides; and how they merge.

Mappings merge key by key, everything else is replaced. Every merged value remembers where it was written.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.store import yaml_text
from orchestrator.store.policy_write import flow
from orchestrator.store.yaml_text import Finding, Mark, Text

CHAIN = 10  # policies that may stand above one another
NAME = re.compile(r"[A-Za-z0-9_-]+")
_PACKAGE = Path(__file__).resolve().parent.parent


class Place(NamedTuple):
    """Where a key stands and where its value does; the same for an item of a list."""

    key: Mark
    value: Mark


Origin = dict[yaml_text.Path, Place]


def shipped() -> Path:
    """The folder of the policies that come with the product."""
    inside = _PACKAGE / "policies"
    return inside if inside.is_dir() else _PACKAGE.parent / "policies"


def chain(source: str, file: str, folder: Path | None) -> tuple[list[Text], list[Finding]]:
    """A text and all that it extends, the base first."""
    layers = [yaml_text.parse(source, file)]
    findings: list[Finding] = []
    seen = {Path(file).stem}
    while isinstance(layers[0].value, dict) and "extends" in layers[0].value:
        name, mark = layers[0].value["extends"], layers[0].mark(("extends",))
        if (wrong := _wrong_base(name, seen, folder)) is not None:
            findings.append(Finding(mark, "ORC006", wrong))
            break
        seen.add(name)
        base = _base(name, folder)
        assert base is not None
        try:
            text = base.read_text(encoding="utf-8")
        except (OSError, ValueError):
            findings.append(Finding(mark, "ORC006", f"{base.name} of the same folder cannot be read as text"))
            break
        layers.insert(0, _parsed(text, str(base)))
        folder = base.parent
    return layers, findings


@lru_cache(maxsize=32)
def _parsed(source: str, file: str) -> Text:
    """A base as it is read again and again; nothing changes it afterwards."""
    return yaml_text.parse(source, file)


def _wrong_base(name: object, seen: set[str], folder: Path | None) -> str | None:
    """Why a policy cannot extend what it names."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return f"extends takes the name of a policy of the same folder, not {flow(name)}"
    if name in seen or len(seen) > CHAIN:
        return f"extends goes in a circle: {name!r} is already there"
    if _base(name, folder) is not None:
        return None
    known = [path.stem for path in folder.glob("*.yaml")] if folder else []
    near = get_close_matches(name, known, 1)
    return f"there is no {name}.yaml in the same folder" + (f"; did you mean {near[0]!r}?" if near else "")


def _base(name: str, folder: Path | None) -> Path | None:
    """`name.yaml` of the folder; a project's policy may also extend a shipped one of that name."""
    for place in (folder, shipped()):
        if place is not None and (place / f"{name}.yaml").is_file():
            return place / f"{name}.yaml"
    return None


def override(text: str) -> Text:
    """`a.b=VALUE` as a layer of its own; every mark points at the override."""
    key, equals, value = text.partition("=")
    file = f"override {text!r}"
    path = key.split(".")
    if not equals or not all(path):
        return Text(file, {}, findings=[Finding(Mark(file, 1, 1), "ORC007", "an override is KEY.KEY=VALUE")])
    layer = yaml_text.parse(value, file)
    inner = layer.value
    mark = Mark(file, 1, len(key) + 2)
    layer.findings = [finding._replace(mark=_moved(finding.mark, len(key) + 1)) for finding in layer.findings]
    layer.values = dict.fromkeys([(*path, *rest) for rest in layer.values], mark)
    layer.keys = dict.fromkeys([(*path, *rest) for rest in layer.keys], mark)
    for depth in range(len(path), 0, -1):
        inner = {path[depth - 1]: inner}
        layer.keys[tuple(path[:depth])] = Mark(file, 1, 1)
        layer.values.setdefault(tuple(path[:depth]), Mark(file, 1, 1))
    layer.value = inner
    return layer


def _moved(mark: Mark, by: int) -> Mark:
    """A place in the override's value as a place in the whole override."""
    return mark._replace(column=mark.column + by) if mark.line == 1 else mark


def merged(layers: Sequence[Text], findings: list[Finding]) -> tuple[dict[str, Any], Origin]:
    """The values in force as they were written, and where each came from."""
    raw: dict[str, Any] = {}
    origin: Origin = {}
    for layer in layers:
        findings += layer.findings
        if isinstance(layer.value, dict):
            _merge(raw, origin, layer, layer.value, ())
        elif not layer.findings:
            findings.append(Finding(Mark(layer.file, 1, 1), "ORC004", "a policy is a mapping of keys"))
    raw.pop("extends", None)
    return raw, origin


def _merge(into: dict[str, Any], origin: Origin, layer: Text, value: dict[str, Any], path: yaml_text.Path) -> None:
    for key, item in value.items():
        here = (*path, key)
        place = _place(layer, here)
        if isinstance(item, dict) and isinstance(into.get(key), dict):
            origin[here] = place
            _merge(into[key], origin, layer, item, here)
            continue
        into[key] = _copy(item)
        for known in [p for p in origin if p[: len(here)] == here]:
            del origin[known]
        origin[here] = place
        for known in layer.values:
            if known[: len(here)] == here and known != here:
                origin[known] = _place(layer, known)


def _place(layer: Text, path: yaml_text.Path) -> Place:
    value = layer.mark(path)
    return Place(layer.keys.get(path, value), value)


def _copy(item: Any) -> Any:
    return {key: _copy(inner) for key, inner in item.items()} if isinstance(item, dict) else item
