"""Comma-separated records with a header: a step column, a loss column, others by their well-known names.

The cells of a NaN are blank in many writers: see _omission. Columns such as `validation/loss` or
`val_loss` are evaluations; a row with nothing else is no step of training.
"""

import csv
import math
import re
from collections.abc import Mapping, Sequence

from orchestrator.telemetry._keys import StepKey, chosen, role, value
from orchestrator.telemetry._line import LineParser, Row
from orchestrator.telemetry._table import Table
from orchestrator.telemetry._text import Unclear

_NAME = re.compile(r"[A-Za-z_][^\"=:{}\[\]|]*|")  # pandas leaves the name of an index column empty


class _Header:
    """Where the columns of a header stand."""

    def __init__(self, names: Sequence[str]) -> None:
        self.size = len(names)
        fields = chosen(names)
        index = {name: at for at, name in reversed(list(enumerate(names)))}
        self.step = index[fields.pop("step")] if "step" in fields else -1
        self.fields = [(field, index[name]) for field, name in fields.items()]
        held_out = [name for name in names if (what := role(name)) and what.field == "eval"]
        self.evals = [(name, index[name], self._group(name, index)) for name in held_out]

    @staticmethod
    def _group(name: str, index: Mapping[str, int]) -> tuple[int, ...]:
        """The columns of one evaluation: `validation/...`; for a name without a group its own only."""
        group, slash, _ = name.rpartition("/")
        return tuple(at for near, at in index.items() if near == name or (slash and near.startswith(group + slash)))

    @property
    def useful(self) -> bool:
        return self.step >= 0 and bool(self.fields or self.evals)


class CsvParser(LineParser):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._header: _Header | None = None
        self._comma = ","
        self._key = StepKey()
        self._table = Table()

    def rows(self, text: str) -> Sequence[Row] | None:
        header = self._header
        if header is None:
            return self._begin(text.removeprefix("\ufeff"))
        cells = self._cells(text)
        try:
            if len(cells) != header.size:
                raise Unclear("a row of another length than its header")
            return self._row(header, cells)
        except ValueError:
            return self._begin(text)  # a second attempt may have written its header again

    def rest(self) -> Sequence[Row]:
        return self._table.rest()

    def _begin(self, text: str) -> Sequence[Row] | None:
        comma = max(",;\t", key=text.count)
        names = [name.strip() for name in _quoted(text, comma)]
        header = _Header(names)
        if not header.useful or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
            return None
        self._header, self._comma = header, comma
        return ()

    def _cells(self, text: str) -> list[str]:
        return _quoted(text, self._comma) if '"' in text else text.split(self._comma)

    def _row(self, header: _Header, cells: list[str]) -> Sequence[Row]:
        values = {field: value(cells[at].strip()) for field, at in header.fields}
        evals = self._evals(header, cells)
        held_out = any(cells[at] for _, _, group in header.evals for at in group)
        bare = sum(map(bool, cells)) == 1
        return self._table.add(Row(self._key.read(cells[header.step]), values, evals), held_out, bare)

    def _evals(self, header: _Header, cells: list[str]) -> tuple[tuple[str, float], ...]:
        """Evaluations; a blank one is NaN where the training loss is lost and the rest of its group is there."""
        evals = []
        for name, at, group in header.evals:
            number = value(cells[at].strip())
            if number is None and self._table.omission.broken and any(cells[near] for near in group):
                number = math.nan
            if number is not None:
                evals.append((name, number))
        return tuple(evals)


def _quoted(text: str, comma: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=comma), [])
    except csv.Error as error:
        raise Unclear(text) from error


def parser(attempt: int) -> CsvParser:
    return CsvParser(attempt)
