"""mmcv and mmengine: `Iter [1210/50000]` or `Epoch [2][50/1000]`, then `lr: …, loss_cls: …, loss: …, grad_norm: …`."""

import re
from collections.abc import Sequence

from orchestrator.telemetry._line import LineParser, Row, number

_HEAD = re.compile(
    r"\b(?:Iter|Epoch)\s*(?:\((?P<mode>\w+)\))?\s*(?:\[\s*(?P<epoch>\d{1,9})(?:/\d+)?\s*\]\s*)?"
    r"\[\s*(?P<at>\d{1,15})/\s*(?P<total>\d{1,15})\]",
    re.ASCII,
)
_PAIR = re.compile(r"(?:^|[\s,])([A-Za-z_][\w./]*): +([^\s,]+)", re.ASCII)
_FIELDS = {"loss": "loss", "grad_norm": "grad_norm", "lr": "lr"}


class MmcvParser(LineParser):
    def rows(self, text: str) -> Sequence[Row] | None:
        head = _HEAD.search(text)
        if head is None or _HEAD.search(text, head.end()):
            return None
        if head["mode"] not in (None, "train"):
            return ()
        step = int(head["at"])
        if head["epoch"]:
            step += (int(head["epoch"]) - 1) * int(head["total"])
        pairs = [(name, raw) for name, raw in _PAIR.findall(text, head.end()) if name in _FIELDS]
        values = {_FIELDS[name]: number(raw) for name, raw in pairs}
        return (Row(step, values),) if "loss" in values and len(values) == len(pairs) and step >= 0 else None


def parser(attempt: int) -> MmcvParser:
    return MmcvParser(attempt)
