"""DeepSpeed: the engine's report every few steps, the loss scaler's overflows, the pipeline's loss, RLHF lines.

The scaler names no step. An overflow is placed on the first step it can be: one on from the last that is
known, one more for each overflow since. Until the distance of two reports is known they wait.
"""

import re
from collections.abc import Sequence

from orchestrator.telemetry._epochs import Epochs
from orchestrator.telemetry._line import LineParser, Row, number

_ENGINE = re.compile(r".*\bstep=(\d{1,15}), skipped=\d+, lr=\[([^\]]*)\], mom=\[.*\]\s*", re.ASCII)
_TIMER = re.compile(r".*global_step=\d+, RunningAvgSamplesPerSec=", re.ASCII)
_SCALER = re.compile(
    r".*(?:OVERFLOW|overflow)! .*Attempted loss scale: (\d+(?:\.\d+)?),"
    r" (?:reducing to (\d+(?:\.\d+)?)|but hysteresis is \d+\. Reducing hysteresis to \d+)\.?\s*",
    re.ASCII,
)
_PIPELINE = re.compile(r"steps: (\d{1,15}) loss: (\S+) iter time \(s\): .*", re.ASCII)
_CHAT = re.compile(r"epoch: (\d{1,9})\|step: (\d{1,15})\|ppo_ep: \d+\|act_loss: (\S+?)\|.*", re.ASCII)


class DeepspeedParser(LineParser):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._last: int | None = None  # the last reported step
        self._gap: int | None = None  # steps between its reports
        self._early: list[float] = []  # loss scales of overflows whose place is not known yet
        self._overflows = 0  # since the last report
        self._waiting: Row | None = None  # a report that the pipeline's loss may complete
        self._pipeline: bool | None = None  # whether pipeline lines follow reports; None: not known yet
        self._chat = Epochs()

    def rows(self, text: str) -> Sequence[Row] | None:
        if found := _ENGINE.fullmatch(text):
            rate = number(found[2].split(",")[0]) if found[2].strip() else None
            return self._report(int(found[1]), rate)
        if found := _SCALER.fullmatch(text):
            return self._overflow(number(found[2] or found[1]))
        if found := _PIPELINE.fullmatch(text):
            return self._loss(int(found[1]), number(found[2]))
        if found := _CHAT.fullmatch(text):
            self._waiting = None
            return (Row(self._chat.step(int(found[1]), int(found[2])), {"loss": number(found[3])}),)
        return () if _TIMER.match(text) else None

    def rest(self) -> Sequence[Row]:
        early, self._early = self._early, []
        start = (self._last or 0) + 1
        rows = [Row(start + at, {"loss_scale": scale}, skipped=True) for at, scale in enumerate(early)]
        return [*self._release(), *rows]

    def _release(self) -> list[Row]:
        row, self._waiting = self._waiting, None
        return [row] if row else []

    def _report(self, step: int, rate: float | None) -> Sequence[Row]:
        if self._chat.begun or step == self._last:  # steps are told by RLHF lines; or a second engine reports
            return ()
        rows = self._release()
        if rows and self._pipeline is None:
            self._pipeline = False
        placed, own = self._reached(step)
        rows += placed
        values: dict[str, float | None] = {"lr": rate}
        if own is not None:
            values["loss_scale"] = own
        row = Row(step, values, skipped=own is not None)
        if self._pipeline is False:
            return [*rows, row]
        self._waiting = row
        return rows

    def _reached(self, step: int) -> tuple[list[Row], float | None]:
        """The overflows that waited for a known step, in their places; the last one where it can only be this step."""
        last, self._last, self._overflows = self._last, step, 0
        self._gap = step - last if last is not None and step > last else None
        room = step - 1 - (last if self._gap and last is not None else 0)
        early, self._early = self._early, []
        placed = early[max(len(early) - room, 0) :] if room else []
        rows = [Row(step - len(placed) + at, {"loss_scale": it}, skipped=True) for at, it in enumerate(placed)]
        return rows, early[-1] if len(early) > room else None

    def _overflow(self, scale: float) -> Sequence[Row]:
        if self._chat.begun:
            return ()
        if self._gap is None or self._last is None:
            self._early.append(scale)
            return ()
        self._overflows += 1
        if self._overflows > self._gap:  # more than there are steps: another engine's
            return ()
        return [*self._release(), Row(self._last + self._overflows, {"loss_scale": scale}, skipped=True)]

    def _loss(self, step: int, loss: float) -> Sequence[Row]:
        self._pipeline = True
        waiting = self._waiting
        if waiting is None or waiting.step != step:
            rows = self._release()
            if step != self._last:  # no engine reports: the pipeline's lines tell where we are
                rows += self._reached(step)[0]
            return [*rows, Row(step, {"loss": loss})]
        self._waiting = None
        return (waiting._replace(values={**waiting.values, "loss": loss}),)


def parser(attempt: int) -> DeepspeedParser:
    return DeepspeedParser(attempt)
