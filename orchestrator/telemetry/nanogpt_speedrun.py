"""modded-nanogpt's log: `step:1210/1530 train_loss:3.5130 train_time:132811ms step_avg:110.23ms`."""

import re
from collections.abc import Sequence

from orchestrator.telemetry._line import LineParser, Row, number

# The time always follows the loss, so a line cut within its loss is not taken for a whole one.
_LINE = re.compile(r"step:(\d{1,15})/\d+ (?:(train|val)_loss:(\S+) )?train_time:\S+(?: \S+)*\s*", re.ASCII)


class SpeedrunParser(LineParser):
    def rows(self, text: str) -> Sequence[Row] | None:
        found = _LINE.fullmatch(text)
        if found is None:
            return None
        step, kind, loss = int(found[1]), found[2], found[3]
        if kind is None:
            return ()
        if kind == "val":
            return (Row(step, evals=(("val", number(loss)),)),)
        return (Row(step, {"loss": number(loss)}),)


def parser(attempt: int) -> SpeedrunParser:
    return SpeedrunParser(attempt)
