"""nanoGPT: `iter 1210: loss 2.9134, time 812.41ms, mfu 40.66%`, evaluations `step 1250: train loss …, val loss …`.

Iterations are counted from 0 here; the printed number is kept.
"""

import re
from collections.abc import Sequence

from orchestrator.telemetry._line import LineParser, Row, number

_ITER = re.compile(r"iter (\d{1,15}): loss (\S+), time [\d.]+ms(?:, .*)?", re.ASCII)
_EVAL = re.compile(r"step (\d{1,15}): train loss \S+, val loss (\d+\.\d{4,}|nan|inf)(?:,? .*)?", re.ASCII)


class NanogptParser(LineParser):
    def rows(self, text: str) -> Sequence[Row] | None:
        if found := _ITER.fullmatch(text.rstrip()):
            return (Row(int(found[1]), {"loss": number(found[2])}),)
        if found := _EVAL.fullmatch(text.rstrip()):
            return (Row(int(found[1]), evals=(("val", number(found[2])),)),)
        return None


def parser(attempt: int) -> NanogptParser:
    return NanogptParser(attempt)
