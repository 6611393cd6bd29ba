"""Records of named values: what CSV rows, JSON objects and declared patterns have in common."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.telemetry._keys import Role, StepKey, role, value
from orchestrator.telemetry._line import Row
from orchestrator.telemetry._omission import Omission

_PLANS = 256  # different shapes of records remembered


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
            rows.append(Row(row.step, values, row.evals, row.skipped, row.time))
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


class _Plan(NamedTuple):
    """Where a record with these names has what."""

    step: str | None
    fields: tuple[tuple[str, str], ...]  # a field of Step, and the name that holds it
    evals: tuple[str, ...]


class Keyed:
    """Reads JSON objects and the like by well-known names, or by declared ones ({field: name})."""

    def __init__(self, declared: Mapping[str, str] | None = None) -> None:
        self.table = Table()
        self._declared = {name: Role(field) for field, name in (declared or {}).items()}
        self._key = StepKey()
        self._chosen: dict[str, str] = {}  # per field the name that stands for it in this text
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def read(self, record: Mapping[str, object], time: float = 0.0) -> Sequence[Row] | None:
        """The rows that a record completes; None when it holds nothing known, ValueError when it is unclear."""
        names = tuple(record)
        plan = self._plans.get(names) or self._plan(names)
        values = {
            field: value(record[name]) if field == "loss" else _known(record[name]) for field, name in plan.fields
        }
        evals: tuple[tuple[str, float], ...] = ()
        if plan.evals:
            evals = tuple((name, number) for name in plan.evals if (number := _known(record[name])) is not None)
        raw = record[plan.step] if plan.step else None
        null_loss = raw is not None and "loss" in values and not evals
        if not evals and not null_loss and values.get("loss") is None and all(v is None for v in values.values()):
            return None
        if raw is None and "step" in self._chosen:
            return None
        step = self._key.count("records without a step") if raw is None else self._key.read(raw)
        return self.table.add(Row(step, values, evals, time=time), bare=null_loss)

    def rest(self) -> Sequence[Row]:
        return self.table.rest()

    def _plan(self, names: tuple[str, ...]) -> _Plan:
        roles = [(name, what) for name in names if (what := self._role(name))]
        for name, what in sorted(roles, key=lambda pair: pair[1].place):
            self._chosen.setdefault(what.field, name)
        fields = {what.field: name for name, what in roles if self._chosen[what.field] == name and what.field != "eval"}
        step = fields.pop("step", None)
        plan = _Plan(step, tuple(fields.items()), tuple(name for name, what in roles if what.field == "eval"))
        if len(self._plans) < _PLANS:
            self._plans[names] = plan
        return plan

    def _role(self, name: str) -> Role | None:
        return self._declared.get(name) if self._declared else role(name)


def _known(cell: object) -> float | None:
    """A number where the cell is one."""
    try:
        return value(cell)
    except ValueError:
        return None
