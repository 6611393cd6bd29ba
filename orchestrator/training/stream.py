"""Telemetry out: whole JSON lines, appended by single writes, never synced, never waited for."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator import wire
from orchestrator.training.shield import warn


class Record(NamedTuple):
    """What one step has to tell, `loss` and `grad_norm` as floats that may be non-finite."""

    step: int
    time: float
    loss: float | None = None
    grad_norm: float | None = None
    lrs: tuple[float, ...] = ()
    clip: float | None = None
    nonfinite: int = 0
    skipped: bool = False
    shards: Sequence[str] = ()
    fields: dict[str, Any] = {}  # noqa: RUF012  never written to
    ranks: dict[str, Any] | None = None


def plain(value: Any) -> Any:
    """A value as JSON takes it: what has an `item` or a `tolist` (tensors, arrays) is turned into numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


class Writer:
    """Turns records into the wire's step lines: of consecutive steps only what differs is written anew."""

    def __init__(self) -> None:
        self._same: tuple[Any, ...] = ()
        self._tail = ""

    def line(self, record: Record) -> str:
        """One step message.

        >>> Writer().line(Record(3, 12.5, loss=float("nan"), grad_norm=1.5, lrs=(0.1,), shards=["a"]))
        '{"type":"step","step":3,"time":12.500,"loss":"nan","grad_norm":1.5,"lr":0.1,"nonfinite":0,"shards":["a"]}'
        """
        step, when, loss, norm, lrs, clip, nonfinite, skipped, shards, fields, ranks = record
        same = clip, nonfinite, skipped, shards, fields
        if same != self._same:
            self._same = clip, nonfinite, skipped, shards[:], dict(fields)
            self._tail = self._rest(clip, nonfinite, skipped, shards, fields)
        text = f'{{"type":"step","step":{step},"time":{when:.3f}'
        # x - x is 0 for finite x only; nine digits hold a float32.
        if loss is not None:
            text += f',"loss":{loss:.9g}' if loss - loss == 0 else _word("loss", loss)
        if norm is not None:
            text += f',"grad_norm":{norm:.9g}' if norm - norm == 0 else _word("grad_norm", norm)
        if lrs:
            text += f',"lr":{lrs[0]!r}' if lrs[0] - lrs[0] == 0 else _word("lr", lrs[0])
        text += self._tail
        if ranks is not None:
            text += _ranks(ranks)
        if len(lrs) > 1:
            text += _word("lrs", lrs)
        return text + "}"

    def _rest(
        self, clip: float | None, nonfinite: int, skipped: bool, shards: Sequence[str], fields: dict[str, Any]
    ) -> str:
        text = "" if clip is None else f',"clip":{clip!r}'
        text += f',"nonfinite":{nonfinite}'
        if shards:
            text += _word("shards", list(shards))
        for name, value in fields.items():
            text += f',"{name}":{value}' if type(value) is int else _word(name, plain(value))
        return text + (',"skipped":true' if skipped else "")


def _ranks(ranks: dict[str, Any]) -> str:
    losses = ranks.get("loss")
    # What two ranks and more say of every step: the losses one by one, all of them finite.
    if len(ranks) == 1 and type(losses) is list and None not in losses and (total := sum(losses)) - total == 0:
        return f',"ranks":{{"loss":[{",".join([f"{loss:.9g}" for loss in losses])}]}}'
    return _word("ranks", ranks)


def _word(name: str, value: Any) -> str:
    return "," + wire.encode({name: value})[1:-1]


# Steps faster than this are written together: code that runs between tensor operations runs cold, and is dear.
HOLD_SECONDS = 0.2


class Stream:
    """One rank's file. A full disk loses lines, says so once, and is tried again at the next line."""

    def __init__(self, path: Path) -> None:
        self._writer = Writer()
        self.held: list[Any] = []  # steps to be written at the next `flush`
        self.record: Callable[[Any], Record] = lambda record: record  # makes one of what is held
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._torn = False
        self._warned = False

    def send(self, message: dict[str, Any]) -> None:
        """Append one message."""
        self.flush()
        self._line(wire.encode(message))

    def flush(self) -> None:
        """Write the steps held back."""
        if self.held:
            held = self.held[:]
            self.held.clear()
            self._line("\n".join(map(self._writer.line, map(self.record, held))))

    def tell(self, record: Record) -> None:
        """Write one step at once."""
        self._line(self._writer.line(record))

    def _line(self, text: str) -> None:
        # After a torn line the next begins on a line of its own.
        data = f"\n{text}\n".encode() if self._torn else f"{text}\n".encode()
        try:
            self._torn = os.write(self._file, data) != len(data)
        except OSError as error:
            self._torn = True
            if not self._warned:
                self._warned = True
                warn(f"telemetry cannot be written ({error}); training goes on")
