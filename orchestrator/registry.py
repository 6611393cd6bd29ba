"""Plug-ins: the file's name is the name in the YAML."""

import importlib
import pkgutil
from difflib import get_close_matches
from types import ModuleType
from typing import Literal

from orchestrator.errors import PluginError

Family = Literal["detectors", "actions", "telemetry", "checkpoints", "launchers", "notify"]


def names(family: Family) -> tuple[str, ...]:
    """Every plug-in of a family, sorted; modules that begin with an underscore are what plug-ins share."""
    package = importlib.import_module(f"orchestrator.{family}")
    return tuple(sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")))


def load(family: Family, name: str) -> ModuleType:
    """The module of one plug-in; PluginError names the nearest and the known ones."""
    known = names(family)
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
        raise PluginError(f"there is no {family.removesuffix('s')} {name!r}{hint}")
    return importlib.import_module(f"orchestrator.{family}.{name}")
