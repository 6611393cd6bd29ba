"""JSON lines of any trainer: keys by their well-known names, or as declared (`keys: {loss: my/loss, step: n}`)."""

from collections.abc import Mapping

from orchestrator.telemetry._objects import ObjectParser


def parser(attempt: int, keys: Mapping[str, str] | None = None) -> ObjectParser:
    return ObjectParser(attempt, keys)
