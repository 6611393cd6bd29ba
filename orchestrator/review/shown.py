"""The policy in force as text, each line with where it came from."""

from typing import Any

from orchestrator.store import yaml_text
from orchestrator.store.policy_layers import Origin
from orchestrator.store.policy_text import Loaded, checked
from orchestrator.store.policy_unparse import unparsed
from orchestrator.store.policy_write import flow, yaml_dump

WIDTH = 78  # the column that origins begin at, where the line is shorter


def in_force(loaded: Loaded) -> dict[str, Any]:
    """The values in force: as they are written, with the defaults of what is not."""
    filled: dict[str, Any] = _filled(loaded.raw, unparsed(checked(loaded)))
    return filled


def _filled(written: Any, defaults: Any) -> Any:
    """A mapping's missing keys are the schema's defaults; a value that is written stays as it is written."""
    if not isinstance(written, dict) or not isinstance(defaults, dict):
        return written
    known = {key: _filled(value, defaults[key]) if key in defaults else value for key, value in written.items()}
    return {**known, **{key: value for key, value in defaults.items() if key not in written}}


def text(loaded: Loaded) -> str:
    """Policy text (it can be loaded again) with the origin of every line as a comment."""
    return "".join(_lines(in_force(loaded), loaded.origin, (), 0))


def _lines(raw: dict[str, Any], origin: Origin, path: yaml_text.Path, indent: int) -> list[str]:
    lines = []
    for key, value in raw.items():
        here = (*path, key)
        if isinstance(value, dict) and value and any(isinstance(item, dict) for item in value.values()):
            lines.append(f"{' ' * indent}{flow(key)}:\n")
            lines += _lines(value, origin, here, indent + 2)
            continue
        line = (
            yaml_dump({key: value}, indent)
            if not isinstance(value, dict)
            else f"{' ' * indent}{flow(key)}: {flow(value)}\n"
        )
        lines.append(f"{line[:-1]:<{WIDTH}}  # {from_where(origin, here, value)}\n")
    return lines


def from_where(origin: Origin, path: yaml_text.Path, value: Any = None) -> str:
    """`file:line` of a value; of a mapping the places of all its keys."""
    if isinstance(value, dict) and value:
        places = dict.fromkeys(from_where(origin, (*path, key)) for key in value)
        return ", ".join(places)
    place = origin.get(path)
    if place is None:
        return "default"
    file = place.value.file
    return file if file.startswith("override ") else f"{file.rpartition('/')[2]}:{place.value.line}"


def as_json(loaded: Loaded) -> dict[str, Any]:
    """The values in force, the place of every key that is written, and the name of the whole."""
    places = {".".join(map(str, path)): str(place.value) for path, place in loaded.origin.items() if path}
    return {"format_version": 1, "policy": in_force(loaded), "origin": places, "digest": loaded.digest}
