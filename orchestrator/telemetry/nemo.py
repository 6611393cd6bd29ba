"""NeMo 2: `Training epoch 0, iteration 1210/50000 | lr: 0.0002978 | global_step: 1210 | reduced_train_loss: 2.913 | …`.

Steps are counted from 0 here; the printed number is kept.
"""

import re
from collections.abc import Sequence

from orchestrator.telemetry._keys import chosen, role
from orchestrator.telemetry._line import LineParser, Row, number

_HEAD = re.compile(r".*\bTraining epoch (\d+), iteration (\d{1,15})/(?:\d+|\?+)\s*", re.ASCII)
_STEP = re.compile(r"\s*(\d{1,15})(?:\.0*)?\s*", re.ASCII)


class NemoParser(LineParser):
    def rows(self, text: str) -> Sequence[Row] | None:
        head, *cells = text.split(" | ")
        found = _HEAD.fullmatch(head)
        if found is None:
            return None
        said: dict[str, str] = {}
        for cell in cells:
            name, colon, raw = cell.partition(": ")
            if not colon or name in said:
                return None
            said[name] = raw
        fields = chosen(said)
        step = _STEP.fullmatch(said[fields.pop("step")] if "step" in fields else found[2])
        if step is None or ("step" not in chosen(said) and found[1] != "0"):  # the iteration begins again each epoch
            return None
        values = {field: number(said[name]) for field, name in fields.items()}
        evals = tuple(
            (name, number(raw)) for name, raw in said.items() if (what := role(name)) and what.field == "eval"
        )
        return (Row(int(step[1]), values, evals),) if values or evals else ()


def parser(attempt: int) -> NemoParser:
    return NemoParser(attempt)
