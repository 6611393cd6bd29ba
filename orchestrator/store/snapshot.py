"""The state at a place of the journal, so that a long run need not be folded from its beginning.

Only a shortcut: it counts as long as the journal up to there is byte for byte what it was (size and checksum) and
the code that made it is the code that reads it; else, or when it is gone, everything is folded anew.
"""

import hashlib
import math
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from orchestrator.core import state as state_module
from orchestrator.core.state import State
from orchestrator.store.journal import Mark
from orchestrator.wire import read_json, write_text

_HOMES = ("orchestrator.core.", "orchestrator.detectors.")


class Snapshot(NamedTuple):
    """The state after the records up to `mark`, the policy then in force, and how far each attempt was read."""

    mark: Mark
    digest: str
    policy: str
    read_to: dict[int, tuple[int, int]]
    state: State


def save(path: Path, snapshot: Snapshot) -> None:
    """Replace the snapshot of a run."""
    body = {
        "code": _code(), "mark": list(snapshot.mark), "digest": snapshot.digest, "policy": snapshot.policy,
        "read_to": [[attempt, *place] for attempt, place in snapshot.read_to.items()],
        "state": to_plain(snapshot.state),
    }  # fmt: skip
    write_text(path, msgspec.json.encode(body).decode())


def load(path: Path) -> Snapshot | None:
    """The snapshot of a run; None where there is none, or other code made it."""
    body = read_json(path)
    try:
        if body["code"] != _code():
            return None
        read_to = {int(attempt): (int(offset), int(told)) for attempt, offset, told in body["read_to"]}
        state = from_plain(body["state"])
        if not isinstance(state, State):
            return None
        return Snapshot(Mark(*body["mark"]), body["digest"], body["policy"], read_to, state)
    except (TypeError, KeyError, ValueError, AttributeError, ImportError):
        return None


@cache
def _code() -> str:
    """Names the code whose states these are: a snapshot of another means nothing."""
    root = Path(state_module.__file__).resolve().parent.parent
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted((*root.glob("core/*.py"), *root.glob("detectors/*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def to_plain(value: Any) -> Any:
    """A state as JSON values; TypeError for what is none of ours."""
    if value is None or value.__class__ in (str, int, bool):
        return value
    if value.__class__ is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        items = [to_plain(item) for item in value]
        cls = value.__class__
        return items if cls is tuple else {"is": f"{cls.__module__}:{cls.__qualname__}", "of": items}
    raise TypeError(f"{value.__class__.__name__} is no part of a state")


def from_plain(value: Any) -> Any:
    """The inverse; makes nothing but named tuples of the core and the detectors."""
    if isinstance(value, list):
        return tuple(from_plain(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    return _named(value["is"])(*(from_plain(item) for item in value["of"]))


@cache
def _named(name: str) -> Any:
    module, _, cls = name.partition(":")
    if not module.startswith(_HOMES) or "." in cls:
        raise ValueError(f"{name} is no part of a state")
    found = getattr(import_module(module), cls)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise ValueError(f"{name} is no part of a state")
    return found
