"""Composer and llm-foundry: `[batch=1210/50000]:`, then `Train loss/train/total: 2.9134` lines.

With a budget in tokens the bracket holds tokens and is no step; the step is then `time/batch`, which counts
the batches before this one. Evaluations name no step: they belong to the last one trained.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.telemetry._blocks import BlockParser
from orchestrator.telemetry._keys import chosen, role
from orchestrator.telemetry._line import Row, number
from orchestrator.telemetry._text import Unclear

_HEAD = re.compile(r"\s*((?:\[\w+=\d{1,18}(?:/\d+)?\])+):\s*|\s*\[Eval \w+=\d+(?:/\d+)?\] Eval on .*:\s*", re.ASCII)
_BATCH = re.compile(r"\[batch=(\d{1,15})(?:/\d+)?\]", re.ASCII)
_ITEM = re.compile(r"\s*(?:Train|Eval) ([^\s:]+): (\S+)\s*")


class _Head(NamedTuple):
    batch: int | None  # None where the bracket holds no count of batches over the whole run
    evaluation: bool = False


class ComposerParser(BlockParser[_Head]):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._last = 0

    def head(self, text: str) -> _Head | None:
        found = _HEAD.fullmatch(text)
        if found is None:
            return None
        batch = _BATCH.fullmatch(found[1]) if found[1] else None
        return _Head(int(batch[1]) if batch else None, evaluation=found[1] is None)

    def item(self, text: str) -> tuple[str, str] | None:
        found = _ITEM.fullmatch(text)
        return (found[1], found[2]) if found else None

    def record(self, head: _Head, said: Mapping[str, str]) -> Sequence[Row]:
        evals = tuple(
            (name, number(raw)) for name, raw in said.items() if (what := role(name)) and what.field == "eval"
        )
        if head.evaluation:
            return (Row(self._last, evals=evals),)
        values = {field: number(said[name]) for field, name in chosen(said).items() if field != "step"}
        self._last = self._step(head, said)
        return (Row(self._last, values, evals),)

    @staticmethod
    def _step(head: _Head, said: Mapping[str, str]) -> int:
        if "time/batch" in said:
            return int(number(said["time/batch"])) + 1
        if head.batch is None:
            raise Unclear("a record without a step")
        return head.batch


def parser(attempt: int) -> ComposerParser:
    return ComposerParser(attempt)
