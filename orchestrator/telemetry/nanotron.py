"""nanotron: `iteration: 1210 / 50000 | consumed_tokens: 2.54B | … | lm_loss: 2.91 | lr: 0.000298 | …`.

Numbers are rounded to three digits and carry K, M, B, T. Also read are lines of `key:value` cells
(`step:200 smpl:2K loss:0.291`). A rounded step (15K) tells no record apart: records are counted then.
"""

import re
from collections.abc import Iterable, Sequence

from orchestrator.telemetry._keys import StepKey, chosen
from orchestrator.telemetry._line import LineParser, Row, number

_HUMAN = re.compile(r"([-+]?\d+(?:\.\d+)?)([KMBT])", re.ASCII)
_SIZES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def human(text: str) -> float:
    """A number that may be shortened; ValueError when it is none.

    >>> human("2.5B"), human("0.0003")
    (2500000000.0, 0.0003)
    """
    text = text.strip()
    if text[-1:] not in _SIZES:
        return number(text)
    found = _HUMAN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return float(found[1]) * _SIZES[found[2]]


class NanotronParser(LineParser):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._key = StepKey()

    def rows(self, text: str) -> Sequence[Row] | None:
        at = text.find("iteration: ")
        if at >= 0:
            return self._row(text[at:].split(" | "))
        at = text.find("step:")
        return self._row(text[at:].split()) if at >= 0 else None

    def _row(self, cells: Iterable[str]) -> Sequence[Row] | None:
        said: dict[str, str] = {}
        for cell in cells:
            name, colon, raw = cell.partition(":")
            if not colon or name in said:
                return None
            said[name] = raw
        fields = chosen(said)
        if "loss" not in fields or "step" not in fields:
            return None
        step = fields.pop("step")
        values = {field: human(said[name]) for field, name in fields.items()}
        return (Row(self._key.read(said[step]), values),)


def parser(attempt: int) -> NanotronParser:
    return NanotronParser(attempt)
