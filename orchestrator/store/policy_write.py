"""Merged values as policy text: block mappings, flow lists, words quoted only where they must be."""

import re
from typing import Any

from orchestrator.store import yaml_text

_PLAIN = re.compile(r"[A-Za-z0-9_./%+][A-Za-z0-9_./%+ -]*")


def yaml_dump(raw: Any, indent: int = 0) -> str:
    """A mapping as block text."""
    lines = []
    for key, value in raw.items():
        if isinstance(value, dict) and value:
            lines.append(f"{' ' * indent}{_word(key)}:\n{yaml_dump(value, indent + 2)}")
        else:
            lines.append(f"{' ' * indent}{_word(key)}: {flow(value)}\n")
    return "".join(lines)


def flow(value: Any) -> str:
    """One value on one line.

    >>> flow([{"lr": "50%"}, "relaunch", None, "no: x"])
    "[{lr: 50%}, relaunch, null, 'no: x']"
    """
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
    plain = _PLAIN.fullmatch(value) and yaml_text.scalar(value) == value and value == value.strip()
    if plain:
        return value
    if value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return '"' + "".join(_escaped(c) for c in value) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
