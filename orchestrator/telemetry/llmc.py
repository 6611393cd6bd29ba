"""llm.c's main.log: `s:1210 trl:3.9134 lr:0.000598 norm:0.31`, evaluations as `s:1250 tel:3.8800`.

Steps are counted from 0 here; the printed number is kept.
"""

import re
from collections.abc import Sequence

from orchestrator.telemetry._line import LineParser, Row, number

_STEP = re.compile(r"\d{1,15}", re.ASCII)
_FIELDS = {"trl": "loss", "trn": "loss", "lr": "lr", "norm": "grad_norm"}
_KNOWN = {"eval"}  # accuracy of a benchmark: nothing that a policy looks at


class LlmcParser(LineParser):
    def rows(self, text: str) -> Sequence[Row] | None:
        if not text.startswith("s:"):
            return None
        cells = [part.partition(":") for part in text.split()]
        fields = {name: raw for name, _, raw in cells}
        if len(fields) < len(cells) or not _STEP.fullmatch(fields["s"]):
            return None
        step = int(fields.pop("s"))
        if "tel" in fields:
            return (Row(step, evals=(("val", number(fields["tel"])),)),) if len(fields) == 1 else None
        if fields.keys() <= _KNOWN:
            return () if fields else None
        return (Row(step, {_FIELDS[name]: number(raw) for name, raw in fields.items()}),) if _sure(fields) else None


def _sure(fields: dict[str, str]) -> bool:
    return fields.keys() <= _FIELDS.keys() and ("trl" in fields) != ("trn" in fields)


def parser(attempt: int) -> LlmcParser:
    return LlmcParser(attempt)
