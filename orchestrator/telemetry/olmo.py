"""OLMo and OLMo-core: `[step=1210/739328,epoch=1,eta=2d4h]`, then indented `name=value` lines."""

import re
from collections.abc import Mapping, Sequence

from orchestrator.telemetry._blocks import BlockParser
from orchestrator.telemetry._keys import chosen, role
from orchestrator.telemetry._line import Row, number

_COUNT = r"\d{1,15}|\d{1,3}(?:,\d{3})+"
_HEAD = re.compile(rf".*\[step=({_COUNT})/(?:{_COUNT}|\?+)(?:,[^\]]*)?\]\s*", re.ASCII)
_ITEM = re.compile(r"\s*([A-Za-z][^=]*)=(\S+)\s*")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)


def grouped(text: str) -> float:
    """A number with or without thousands separators.

    >>> grouped("57,312"), grouped("2.913")
    (57312.0, 2.913)
    """
    return float(text.replace(",", "")) if _GROUPED.fullmatch(text) else number(text)


class OlmoParser(BlockParser[int]):
    def head(self, text: str) -> int | None:
        found = _HEAD.fullmatch(text)
        return int(found[1].replace(",", "")) if found else None

    def item(self, text: str) -> tuple[str, str] | None:
        found = _ITEM.fullmatch(text)
        return (found[1], found[2]) if found else None

    def record(self, head: int, said: Mapping[str, str]) -> Sequence[Row]:
        values = {field: grouped(said[name]) for field, name in chosen(said).items() if field != "step"}
        evals = tuple(
            (name, grouped(raw)) for name, raw in said.items() if (what := role(name)) and what.field == "eval"
        )
        skipped = grouped(said.get("optim/step skipped", "0")) > 0
        return (Row(head, values, evals, skipped),)


def parser(attempt: int) -> OlmoParser:
    return OlmoParser(attempt)
