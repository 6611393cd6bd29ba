"""Lightning's progress bar: `Epoch 3:  60%|███  | 1200/2000 [20:04<13:23, 1.00it/s, train_loss=2.910]`.

The step is the batch counted over all epochs. The bar is refreshed in place: of the refreshes of one step
the last counts, so a record is told when the bar moves on; one that is not finite is told at once.
"""

import math
import re
from collections.abc import Sequence

from orchestrator.telemetry._keys import chosen, role
from orchestrator.telemetry._line import LineParser, Row, number

_BAR = re.compile(
    r"Epoch (\d{1,9}):\s*\d+%\|[^|]*\|\s*(\d{1,15})/(\d{1,15}) \[[\d:?]+<[\d:?]+,\s*[\w.?/]+(?:, (.*))?\]\s*", re.ASCII
)


class LightningParser(LineParser):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._held: Row | None = None
        self._evals: dict[str, float] = {}

    def rows(self, text: str) -> Sequence[Row] | None:
        found = _BAR.fullmatch(text.strip())
        if found is None:
            return () if text.lstrip().startswith(("Validation", "Sanity Checking", "Testing")) else None
        if not found[4]:
            return ()
        cells = [cell.strip().partition("=") for cell in found[4].split(",")]
        said = {name: raw for name, _, raw in cells}
        if len(said) < len(cells) or not all(sign for _, sign, _ in cells):
            return None
        fields = chosen(said)
        batch = int(found[2])
        step = int(number(said[fields.pop("step")])) if "step" in fields else int(found[1]) * int(found[3]) + batch
        values = {field: number(said[name]) for field, name in fields.items()}
        evals = self._new({name: number(raw) for name, raw in said.items() if _held_out(name)})
        return self._move(Row(step, values if batch else {}, evals))

    def rest(self) -> Sequence[Row]:
        row, self._held = self._held, None
        return (row,) if row else ()

    def _move(self, row: Row) -> Sequence[Row]:
        held = self._held
        rows = [held] if held and held.step != row.step else []
        if row.evals:
            rows.append(row._replace(values={}))
        self._held = row._replace(evals=()) if row.values else None
        if any(not math.isfinite(value) for value in row.values.values() if value is not None):
            rows.extend(self.rest())
        return rows

    def _new(self, evals: dict[str, float]) -> tuple[tuple[str, float], ...]:
        """The evaluations that were not shown yet: the bar shows the last ones all the time."""
        new = tuple((name, value) for name, value in evals.items() if repr(self._evals.get(name)) != repr(value))
        self._evals.update(evals)
        return new


def _held_out(name: str) -> bool:
    what = role(name)
    return what is not None and what.field == "eval"


def parser(attempt: int) -> LightningParser:
    return LightningParser(attempt)
