"""What all formats of log lines share: one line in, its rows out, rows placed in their attempt."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.core.facts import Eval, Fact, Step, step_of
from orchestrator.telemetry._attempts import Attempts
from orchestrator.telemetry._text import plain


class Row(NamedTuple):
    """What one record says; `values` by the names of a Step, NaN where a value is known not to be finite."""

    step: int
    values: Mapping[str, float | None] = {}
    evals: tuple[tuple[str, float], ...] = ()
    skipped: bool = False
    time: float = 0.0


class Teller:
    """Turns the rows of one text into facts, each in its attempt; repeats are left out."""

    def __init__(self, attempt: int) -> None:
        self.attempts = Attempts(attempt)

    def facts(self, rows: Sequence[Row], rank: str = "") -> list[Fact]:
        facts: list[Fact] = []
        for step, values, evals, skipped, time in rows:
            if values or skipped:
                opening = self.attempts.place(step, rank)
                if opening is not None:
                    facts.extend(opening)
                    facts.append(_step(self.attempts.attempt, step, values, skipped, time))
            for name, value in evals:
                facts.append(Eval(self.attempts.attempt, step, name, value if math.isfinite(value) else None, time))
        return facts


class LineParser(ABC):
    """A parser of lines. A format says what a text means: rows, nothing of interest, or not readable."""

    def __init__(self, attempt: int) -> None:
        self.skipped = 0
        self.rank = ""  # the label of the rank that wrote the line at hand
        self.teller = Teller(attempt)

    @abstractmethod
    def rows(self, text: str) -> Sequence[Row] | None:
        """The rows a line completes: none for a known line that tells nothing, None (or ValueError) when unclear."""

    def rest(self) -> Sequence[Row]:
        """The rows still held when the text ends."""
        return ()

    def feed(self, line: bytes) -> Sequence[Fact]:
        if b"\r" in line:
            return [fact for part in line.split(b"\r") if part for fact in self.feed(part)]
        try:
            self.rank, text = plain(line)
            rows = self.rows(text)
        except (ValueError, OverflowError):
            rows = None
        if rows is None:
            self.skipped += 1
            return ()
        return self.teller.facts(rows, self.rank) if rows else ()

    def close(self) -> Sequence[Fact]:
        return self.teller.facts(self.rest(), self.rank)


def _step(attempt: int, step: int, values: Mapping[str, float | None], skipped: bool, time: float) -> Step:
    if math.isfinite(sum(filter(None, values.values()))):
        return Step(attempt, step, time, skipped=skipped, **values)  # type: ignore[arg-type]
    return step_of(attempt, step, unmask(values), skipped=skipped, time=time)


def unmask(values: Mapping[str, float | None]) -> Mapping[str, float | None]:
    """A loss of exactly zero beside a norm that is not finite is a NaN that the trainer filtered out.

    >>> unmask({"loss": 0.0, "grad_norm": math.nan})
    {'loss': nan, 'grad_norm': nan}
    """
    norm = values.get("grad_norm")
    if values.get("loss") == 0.0 and norm is not None and not math.isfinite(norm):
        return {**values, "loss": math.nan}
    return values


def number(text: str) -> float:
    """A number as it is printed; ValueError for all that Python alone would take for one.

    >>> number(" -inf"), number("4.2e-05")
    (-inf, 4.2e-05)
    """
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)
