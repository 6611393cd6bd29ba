"""litgpt: `Epoch 1 | iter 1210 step 302 | loss train: 2.913, val: n/a | iter time: 812.41 ms (step) remaining time: …`.

An iteration is a micro-batch: the step counts updates, and its first line is the record of that update.
The last evaluation is printed again on every line; only a new one is told.
"""

import re
from collections.abc import Sequence

from orchestrator.telemetry._line import LineParser, Row, number

_LINE = re.compile(
    r"Epoch \d+ \| iter \d+ step (\d{1,15}) \| loss train: ([^\s,]+), val: (\S+) \| iter time: .*", re.ASCII
)


class LitgptParser(LineParser):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._evaluation = "n/a"

    def rows(self, text: str) -> Sequence[Row] | None:
        found = _LINE.fullmatch(text)
        if found is None:
            return None
        evals: tuple[tuple[str, float], ...] = ()
        if found[3] not in ("n/a", self._evaluation):
            evals = (("val", number(found[3])),)
            self._evaluation = found[3]
        return (Row(int(found[1]), {"loss": number(found[2])}, evals),)


def parser(attempt: int) -> LitgptParser:
    return LitgptParser(attempt)
