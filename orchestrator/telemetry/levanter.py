"""Levanter's json_logger tracker: a JSON object behind the logger's own prefix, the values in `metrics`."""

from collections.abc import Sequence

from orchestrator.telemetry._line import Row
from orchestrator.telemetry._objects import ObjectParser, decode


class LevanterParser(ObjectParser):
    def rows(self, text: str) -> Sequence[Row] | None:
        at = text.find("{")
        if at < 0:
            return None
        said = decode(text[at:])
        if "tracker" not in said:
            return None
        metrics, step = said.get("metrics"), said.get("step")
        if said.get("event") != "log" or step is None or not isinstance(metrics, dict):
            return ()
        return self.keyed.read({**metrics, "step": step}) or ()


def parser(attempt: int) -> LevanterParser:
    return LevanterParser(attempt)
