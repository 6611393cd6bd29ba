"""The JSON Schema of a policy as it is written, for editors (draft 7, as yaml-language-server reads it).

What a policy extends may hold the rest of any mapping, so no key is required here; lint knows.
"""

from typing import Any

from orchestrator import registry
from orchestrator.core.facts import VERBS
from orchestrator.core.units import Cadence
from orchestrator.store.policy_schema import adapter, detector_adapter
from orchestrator.store.policy_unparse import cadence, quantity

DRAFT = "http://json-schema.org/draft-07/schema#"
_SHARE = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?([eE][+-]?\d+)?\s*%\s*$"}


def schema() -> dict[str, Any]:
    """The whole schema."""
    whole = _written(adapter().json_schema())
    definitions = whole.pop("$defs")
    definitions["Response"] = _response(definitions["Response"]["properties"])
    properties = dict(whole["properties"])
    properties["extends"] = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "description": _EXTENDS}
    properties["detectors"] = {"type": "object", "additionalProperties": _detector()}
    return {
        "$schema": DRAFT,
        "title": "A policy of orchestrate",
        "description": "What is watched in a training run, and what is done about it.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": definitions,
    }


_EXTENDS = "The name of one policy of the same folder, or of a shipped one; its keys are in force where this has none."


def _written(node: Any) -> Any:
    """The validator's schema with keys and defaults as a policy has them, and nothing required."""
    if isinstance(node, list):
        return [_written(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _written(value) for key, value in node.items() if key != "required"}
    if isinstance(made.get("properties"), dict):
        made["properties"] = {key.rstrip("_"): value for key, value in made["properties"].items()}
    if isinstance(made.get("description"), str):
        made["description"] = made["description"].split("\n\n>>>")[0]
    if "default" in made and "title" in made:
        made["default"] = _default(made["default"], str(made["title"]))
    return made


def _default(value: Any, title: str) -> Any:
    if isinstance(value, dict) and title == "cadence":
        return cadence(Cadence(**value))
    unit = {"steps": "steps", "time": "time"}.get(title, "share" if title.startswith("share") else "")
    return quantity(value, unit) if unit and isinstance(value, int | float) else value


def _response(fields: dict[str, Any]) -> dict[str, Any]:
    """One verb of a rung: the bare word, or a mapping whose first key is the verb."""
    known = registry.names("actions")
    plain = [verb for verb in VERBS if verb in known]
    options = {"recover": fields["recover"]}
    rollback = {"type": "object", "properties": {"depth": fields["depth"]}, "additionalProperties": False}
    shards = {"enum": ["suspect window", "recurring"]}
    return {
        "description": "A verb, or a mapping whose first key is the verb.",
        "anyOf": [
            {"enum": [verb for verb in plain if verb not in ("lr", "clip", "quarantine")]},
            _mapping({"lr": {**_SHARE, "description": "Of the planned rate."}, **options}, "lr"),
            _mapping({"clip": {**_SHARE, "description": "Of the policy's own limit."}}, "clip"),
            _mapping({"rollback": rollback}, "rollback"),
            _mapping({"quarantine": shards}, "quarantine"),
        ],
    }


def _mapping(properties: dict[str, Any], verb: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [verb], "additionalProperties": False}


def _detector() -> dict[str, Any]:
    """A detector's parameters depend on its kind."""
    kinds = registry.names("detectors")
    branches = []
    for kind in kinds:
        made = _written(detector_adapter(kind).json_schema())
        properties = {"kind": {"const": kind}, **made["properties"]}
        then = {"properties": properties, "additionalProperties": False, "description": made.get("description", "")}
        branches.append({"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": then})
    return {"type": "object", "properties": {"kind": {"enum": list(kinds)}}, "allOf": branches}
