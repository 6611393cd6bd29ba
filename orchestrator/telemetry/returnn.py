"""RETURNN: `ep 7 train, step 812, ce 0.410, grad_norm:p2 2.050, mem_usage:cuda:3 40.1GB, 0.700 sec/step, …`.

Steps begin again in every epoch and are counted on from the first epoch of the text. The loss is the total where one is
printed, else `ce`, else the only value that is no other thing. Lines of evaluations are known and told as nothing: they
hold one batch each.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from orchestrator.telemetry._epochs import Epochs
from orchestrator.telemetry._line import LineParser, Row, number
from orchestrator.telemetry._text import Unclear

_LINE = re.compile(r"ep (\d{1,9}) train, step (\d{1,15}), (.*), complete [\d.]+%(?: \(.*\))?\s*", re.ASCII)
_KNOWN = re.compile(r"ep \d{1,9} \S+ eval, step \d{1,15}, .*", re.ASCII)
_CELL = re.compile(r"(?:^|, )([A-Za-z]\w*)(?::\w+)* ([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))(?=, |$)", re.ASCII)
_TOTALS = ("total", "loss", "ce")
_NO_LOSS = ("grad_norm", "mem_usage", "num_seqs", "max_size", "exp_remaining", "learning_rate", "lr")


class ReturnnParser(LineParser):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._epochs = Epochs()

    def rows(self, text: str) -> Sequence[Row] | None:
        found = _LINE.fullmatch(text)
        if found is None:
            return () if _KNOWN.fullmatch(text) else None
        cells = _CELL.findall(found[3])
        said = dict(cells)
        if len(said) < len(cells):
            raise Unclear("a value twice in one line")
        fields = _fields(tuple(said))
        values: dict[str, float | None] = {field: number(said[name]) for field, name in fields}
        return (Row(self._epochs.step(int(found[1]), int(found[2])), values),)


@lru_cache(maxsize=128)
def _fields(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Which names stand for what; Unclear when none is surely the loss."""
    losses = [name for name in names if name not in _NO_LOSS]
    loss = next((name for name in _TOTALS if name in losses), losses[0] if len(losses) == 1 else None)
    if loss is None:
        raise Unclear("no value that is surely the loss")
    others = {"grad_norm": "grad_norm", "learning_rate": "lr", "lr": "lr"}
    return (("loss", loss), *((field, name) for name, field in others.items() if name in names))


def parser(attempt: int) -> ReturnnParser:
    return ReturnnParser(attempt)
