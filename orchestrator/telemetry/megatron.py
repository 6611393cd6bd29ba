"""Megatron-LM and Megatron-DeepSpeed: one line an interval, `|` between its fields, any of which may lack.

The loss is printed only when it is above zero, so a NaN shows as a missing `lm loss`; so does an interval
of which every update was skipped for an fp16 overflow, but that one says how many it skipped.
"""

import math
import re
from collections.abc import Sequence

from orchestrator.telemetry._line import LineParser, Row, number
from orchestrator.telemetry._text import Unclear

_HEAD = re.compile(r"\s*(?:\[[^\]]*\]\s*)?iteration\s+(\d{1,15})\s*/\s*\d+\s*", re.ASCII)
_COUNTER = re.compile(r"iteration\s+\d+\s*/", re.ASCII)
_EVAL = re.compile(
    r"\s*(?:\[[^\]]*\]\s*)?(validation|test) loss at (?:iteration (\d{1,15})|the end of training)\b(.*)", re.ASCII
)
_FIELDS = {
    "lm loss": "loss",
    "loss": "loss",
    "learning rate": "lr",
    "grad norm": "grad_norm",
    "loss scale": "loss_scale",
    "params norm": "param_norm",
    "consumed tokens": "tokens_seen",
    "number of skipped iterations": "skips",
    "number of nan iterations": "nans",
}


class MegatronParser(LineParser):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._lost_is_wrong = False  # an earlier line had a loss

    def rows(self, text: str) -> Sequence[Row] | None:
        if text.lstrip().startswith(("time (ms)", "-----")):
            return ()
        if "|" not in text:
            return None
        head, *fields = text.split("|")
        if fields.pop().strip() or len(_COUNTER.findall(text)) > 1:
            raise Unclear("the line ends in the middle of a field, or is two lines in one")
        found = _HEAD.fullmatch(head)
        if found is None:
            return self._evaluation(head, fields)
        return (self._interval(int(found[1]), fields),)

    def _interval(self, step: int, fields: list[str]) -> Row:
        values: dict[str, float | None] = {}
        for field in fields:
            name, colon, raw = field.partition(":")
            place = _FIELDS.get(name.strip())
            if not colon or place in values:
                raise Unclear("a field twice, or cut")
            if place is None:
                continue
            values[place] = number(raw)
        skips, nans = values.pop("skips", None), values.pop("nans", None)
        if nans:
            values["loss"] = math.nan
        skipped = "loss" not in values and bool(skips)
        if "loss" in values:
            self._lost_is_wrong = True
        elif self._lost_is_wrong and not skipped:
            values["loss"] = math.nan
        return Row(step, values, skipped=skipped)

    def _evaluation(self, head: str, fields: list[str]) -> Sequence[Row] | None:
        found = _EVAL.fullmatch(head)
        if found is None:
            return None
        name = "test" if found[1] == "test" or "test" in found[3] else "validation"
        for field in fields:
            key, _, raw = field.partition(":")
            if key.strip() in ("lm loss value", "loss value"):
                step = int(found[2]) if found[2] else max(self.teller.attempts.newest, 0)
                return (Row(step, evals=((name, number(raw)),)),)
        return None


def parser(attempt: int) -> MegatronParser:
    return MegatronParser(attempt)
