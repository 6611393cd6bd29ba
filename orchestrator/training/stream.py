"""Telemetry out: JSON lines appended by one write each, never synced, never waited for."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator import wire
from orchestrator.training.shield import warn


class Stream:
    """One rank's file. A full disk loses lines, says so once, and is tried again at the next line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._torn = False
        self._warned = False

    def send(self, message: dict[str, Any]) -> None:
        """Append one message."""
        self.line(wire.encode(message))

    def line(self, text: str) -> None:
        """Append one line; after a torn one it begins on a line of its own."""
        data = f"\n{text}\n".encode() if self._torn else f"{text}\n".encode()
        try:
            self._torn = os.write(self._file, data) != len(data)
        except OSError as error:
            self._torn = True
            if not self._warned:
                self._warned = True
                warn(f"telemetry cannot be written ({error}); training goes on")


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


def _number(value: float) -> str:
    # x - x is 0 for finite x only; repr of a finite float is JSON.
    return repr(value) if value - value == 0 else wire.encode({"": value})[4:-1]


class Writer:
    """Turns records into the wire's step lines; a step costs a few string joins, not a JSON encoder."""

    def __init__(self) -> None:
        self._shards: Sequence[str] = ()
        self._shards_text = ""

    def line(self, record: Record) -> str:
        """One step message.

        >>> Writer().line(Record(3, 12.5, loss=float("nan"), grad_norm=1.5, lrs=(0.1,), shards=["a"]))
        '{"type":"step","step":3,"time":12.500,"loss":"nan","grad_norm":1.5,"lr":0.1,"nonfinite":0,"shards":["a"]}'
        """
        text = f'{{"type":"step","step":{record.step},"time":{record.time:.3f}'
        if record.loss is not None:
            text += f',"loss":{_number(record.loss)}'
        if record.grad_norm is not None:
            text += f',"grad_norm":{_number(record.grad_norm)}'
        if record.lrs:
            text += f',"lr":{_number(record.lrs[0])}'
        if record.clip is not None:
            text += f',"clip":{record.clip!r}'
        text += f',"nonfinite":{record.nonfinite}{self._names(record.shards)}'
        if record.skipped or record.fields or record.ranks is not None or len(record.lrs) > 1:
            text += _rest(record)
        return text + "}"

    def _names(self, shards: Sequence[str]) -> str:
        # Consecutive steps mostly read the same shard.
        if shards != self._shards or not self._shards_text:
            self._shards = tuple(shards)
            self._shards_text = "," + wire.encode({"shards": list(shards)})[1:-1] if shards else ""
        return self._shards_text


def _rest(record: Record) -> str:
    rest: dict[str, Any] = plain(record.fields)
    if len(record.lrs) > 1:
        rest["lrs"] = record.lrs
    if record.skipped:
        rest["skipped"] = True
    if record.ranks is not None:
        rest["ranks"] = record.ranks
    return "," + wire.encode(rest)[1:-1]
