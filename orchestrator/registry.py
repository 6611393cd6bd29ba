"""Plug-ins: the file's name is the name in the YAML."""

import importlib
import pkgutil
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Literal

from orchestrator.core.facts import VERBS, Verb
from orchestrator.core.policy import Policy
from orchestrator.core.rules import Detector, Planner, Rules
from orchestrator.errors import PluginError

Family = Literal["detectors", "actions", "telemetry", "checkpoints", "launchers", "notify"]


@cache
def names(family: Family) -> tuple[str, ...]:
    """Every plug-in of a family, sorted; a file whose name begins with an underscore is none."""
    package = importlib.import_module(f"orchestrator.{family}")
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def load(family: Family, name: str) -> ModuleType:
    """The module of one plug-in; PluginError names the nearest and the known ones."""
    known = names(family)
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
        raise PluginError(f"there is no {family.removesuffix('s')} {name!r}{hint}")
    return importlib.import_module(f"orchestrator.{family}.{name}")


def bind(policy: Policy) -> Rules:
    """The policy with its detectors made and the planners of all verbs: what the core works by."""
    detectors = tuple((name, detector(spec)) for name, spec in policy.detectors.items())
    planners: dict[Verb, Planner] = {verb: load("actions", verb).plan for verb in VERBS if verb in names("actions")}
    return Rules(policy, detectors, planners, policy.schedule is not None)


def detector(spec: Mapping[str, object]) -> Detector:
    """A detector from its `kind` and its parameters, already validated."""
    kind = str(spec["kind"])
    made: Detector = load("detectors", kind).Plugin(**{key: value for key, value in spec.items() if key != "kind"})
    return made
