"""The JSON Schema for editors: keys as they are written, short forms of responses, every kind of detector."""

import json
import re

import pytest

from orchestrator import registry
from orchestrator.review.schema import DRAFT, schema
from orchestrator.store.policy_text import load_text, named, shipped
from orchestrator.store.yaml_text import parse


def fits(value, node, root):
    """Whether a value fits: as much of draft 7 as the schema uses."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].removeprefix("#/$defs/")]
    kinds = {"object": dict, "array": tuple, "string": str, "integer": int, "number": (int, float), "boolean": bool,
             "null": type(None)}  # fmt: skip
    if "type" in node and not isinstance(value, kinds[node["type"]]):
        return False
    if isinstance(value, bool) and node.get("type") in ("integer", "number"):
        return False
    checks = [
        "const" not in node or value == node["const"],
        "enum" not in node or value in node["enum"],
        "minimum" not in node or value >= node["minimum"],
        "pattern" not in node or re.search(node["pattern"], value) is not None,
        "anyOf" not in node or any(fits(value, each, root) for each in node["anyOf"]),
        all(not fits(value, each["if"], root) or fits(value, each["then"], root) for each in node.get("allOf", [])),
        not isinstance(value, dict) or all(key in value for key in node.get("required", [])),
    ]
    return all(checks) and _inside(value, node, root)


def _inside(value, node, root):
    if isinstance(value, tuple):
        return all(fits(item, node.get("items", {}), root) for item in value)
    if not isinstance(value, dict) or ("properties" not in node and "additionalProperties" not in node):
        return True
    known, rest = node.get("properties", {}), node.get("additionalProperties", True)
    return all(
        fits(item, known[key], root) if key in known else rest if isinstance(rest, bool) else fits(item, rest, root)
        for key, item in value.items()
    )


@pytest.mark.parametrize("name", named())
def test_the_shipped_policies_fit(name):
    value = parse((shipped() / f"{name}.yaml").read_text(), name).value
    assert fits(value, schema(), schema())


@pytest.mark.parametrize(
    "text",
    [
        "moed: act",
        "checkpoints: {every: 1000}",
        "schedule: {warmup: {for_: 100 steps}}",
        "detectors: {x: {kind: robust_y}}",
        "detectors: {x: {kind: level_shift, threshold: 3}}",
        "spikes: {persistent: {respond: [[{verb: rollback}]]}}",
        "spikes: {persistent: {respond: [[{rollback: {dept: 2}}]]}}",
        "spikes: {persistent: {respond: [rollback]}}",
    ],
)
def test_what_lint_refuses_does_not_fit(text):
    assert not fits(parse(text, "p.yaml").value, schema(), schema())


PATHS = [
    "mode", "propose.wait", "checkpoints.every", "checkpoints.margin", "limits.lr_floor", "clip.max_norm",
    "checkpoints.before_phase_switch", "spikes.repeated.events", "spikes.isolated.severity",
    "detectors.level.above", "detectors.level.sigmas",
]  # fmt: skip
VALUES = [
    "act", "high", "no", "true", "null", "3", "0.5", "-1", "500 steps", "1k steps", "30m", "2B tokens", "auto", "5%",
    "5 %", "-5%", "[]", "{}", "nan", ".inf", "'5%'",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", VALUES)
def test_editor_and_lint_agree_on_values(path, value):
    text = f"detectors: {{level: {{kind: level_shift, {path.rpartition('.')[2]}: {value}}}}}"
    if not path.startswith("detectors"):
        first, *rest = path.split(".")
        text = f"{first}: " + "".join(f"{{{key}: " for key in rest) + value + "}" * len(rest)
    refused = load_text(text, "p.yaml", None).findings != ()
    assert fits(parse(text, "p.yaml").value, schema(), schema()) is not refused


def test_keys_are_written_without_underscores_and_defaults_with_units():
    whole = schema()
    assert whole["$schema"] == DRAFT
    text = json.dumps(whole)
    assert "for_" not in text
    assert whole["$defs"]["Checkpoints"]["properties"]["healthy_after"]["default"] == "300 steps"
    kinds = whole["properties"]["detectors"]["additionalProperties"]["properties"]["kind"]["enum"]
    assert tuple(kinds) == registry.names("detectors")
