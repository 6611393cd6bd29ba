"""Records of named values: what CSV rows, JSON objects and declared patterns have in common."""

from collections.abc import Mapping, Sequence

from orchestrator.telemetry._keys import Role, StepKey, role, value
from orchestrator.telemetry._line import Row
from orchestrator.telemetry._omission import Omission


class Table:
    """Completes records: NaN by omission, and values of one step that come in several records.

    A record with a loss is told at once. One without waits for the loss of its step, or for another step.
    """

    def __init__(self) -> None:
        self.omission = Omission()
        self._waiting: Row | None = None
        self._told = -1

    def add(self, row: Row, held_out: bool = False, bare: bool = False) -> Sequence[Row]:
        """The rows that are whole now. Of the flags see Omission.judge."""
        values = self.omission.judge(row.values, held_out or bool(row.evals), bare)
        waiting = self._waiting
        same = waiting is not None and waiting.step == row.step
        if waiting is not None and same:
            values = {**waiting.values, **values}
        rows = [] if waiting is None or same or not values else [waiting]
        if "loss" in values:
            self._waiting, self._told = None, row.step
            rows.append(row._replace(values=values))
            return rows
        if values:
            self._waiting = None if row.step == self._told else row._replace(values=values, evals=())
        if row.evals:
            rows.append(row._replace(values={}))
        return rows

    def rest(self) -> Sequence[Row]:
        """The record that no loss came for."""
        row, self._waiting = self._waiting, None
        return (row,) if row else ()


class Keyed:
    """Reads JSON objects and the like by well-known names, or by declared ones ({field: name})."""

    def __init__(self, declared: Mapping[str, str] | None = None) -> None:
        self.table = Table()
        self._declared = {name: Role(field) for field, name in (declared or {}).items()}
        self._key = StepKey()
        self._chosen: dict[str, str] = {}  # per field the name that stands for it in this text

    def read(self, record: Mapping[str, object], time: float = 0.0) -> Sequence[Row] | None:
        """The rows that a record completes; None when it holds nothing known, ValueError when it is unclear."""
        roles = [(name, what) for name in record if (what := self._role(name))]
        for name, what in sorted(roles, key=lambda pair: pair[1].place):
            self._chosen.setdefault(what.field, name)
        cells = {what.field: record[name] for name, what in roles if self._chosen[what.field] == name}
        evals = [(name, _known(record[name])) for name, what in roles if what.field == "eval"]
        cells.pop("eval", None)
        if not cells and not evals:
            return None
        raw = cells.pop("step", None)
        values = {field: value(cell) if field == "loss" else _known(cell) for field, cell in cells.items()}
        filled = tuple((name, number) for name, number in evals if number is not None)
        if (
            not filled
            and all(number is None for number in values.values())
            and not ("loss" in values and raw is not None)
        ):
            return None
        if raw is None and "step" in self._chosen:
            return None
        step = self._key.count("records without a step") if raw is None else self._key.read(raw)
        return self.table.add(Row(step, values, filled, time=time), bare="loss" in values and not filled)

    def rest(self) -> Sequence[Row]:
        return self.table.rest()

    def _role(self, name: str) -> Role | None:
        return self._declared.get(name) if self._declared else role(name)


def _known(cell: object) -> float | None:
    """A number where the cell is one."""
    try:
        return value(cell)
    except ValueError:
        return None
