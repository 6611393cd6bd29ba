"""torchtitan: `step: 120  loss:  3.20451  grad_norm:  1.2040  memory: …`, coloured, behind the logger's prefix."""

import re
from collections.abc import Sequence

from orchestrator.telemetry._line import LineParser, Row, number
from orchestrator.telemetry._text import Unclear

_PAIR = re.compile(r"([a-z_]+):\s+(\S+)", re.ASCII)
_STEP = re.compile(r"\d{1,15}", re.ASCII)
_FIELDS = {"loss": "loss", "grad_norm": "grad_norm", "lr": "lr"}


class TitanParser(LineParser):
    def rows(self, text: str) -> Sequence[Row] | None:
        at = text.find("step:")
        if at < 0 or text.count("step:") > 1:
            return None
        pairs = _PAIR.findall(text, at)
        said = dict(pairs)
        if "loss" not in said or not _STEP.fullmatch(said.get("step", "")):
            return None
        if len(said) < len(pairs) or pairs[-1][0] in ("step", *_FIELDS):
            raise Unclear("a key twice, or the line is cut: memory and speed always follow")
        step = int(said["step"])
        if text[:at].rstrip().endswith("validate"):
            return (Row(step, evals=(("validate", number(said["loss"])),)),)
        return (Row(step, {field: number(said[name]) for name, field in _FIELDS.items() if name in said}),)


def parser(attempt: int) -> TitanParser:
    return TitanParser(attempt)
