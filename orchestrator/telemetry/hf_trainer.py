"""What the Hugging Face Trainer prints: a Python dict a record, numbers bare (nan, inf too) or quoted.

No step is printed, so records are counted. An epoch that falls back is a restart; it goes on from the
record that had that epoch. A loss that was filtered shows as 0.0 beside a norm that is not finite.
"""

from bisect import bisect_left
from collections.abc import Sequence

from orchestrator.telemetry._keys import StepKey
from orchestrator.telemetry._line import LineParser, Row, number

_FIELDS = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "lr", "num_input_tokens_seen": "tokens_seen"}


class HfParser(LineParser):
    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._epochs: list[float] = []  # of the records so far; the next one's step is one more than there are
        self._key: StepKey | None = None  # where a record names its step after all

    def rows(self, text: str) -> Sequence[Row] | None:
        start, end = text.find("{'"), text.rfind("}")
        if start < 0 or text[end + 1 :].strip():
            return None
        said = _pairs(text[start + 1 : end])
        if "train_runtime" in said:
            return ()
        evals = tuple((name, number(raw)) for name, raw in said.items() if _held_out(name))
        if "loss" not in said:
            return (Row(self._now(said), evals=evals),) if evals else None
        values = {field: number(said[name]) for name, field in _FIELDS.items() if name in said}
        return (Row(self._next(said), values, evals),)

    def _now(self, said: dict[str, str]) -> int:
        named = self._named(said)
        return len(self._epochs) if named is None else named

    def _next(self, said: dict[str, str]) -> int:
        named = self._named(said)
        if named is not None:
            return named
        epoch = number(said.get("epoch", "inf"))
        if self._epochs and epoch < self._epochs[-1]:
            del self._epochs[bisect_left(self._epochs, epoch) :]
        self._epochs.append(epoch)
        return len(self._epochs)

    def _named(self, said: dict[str, str]) -> int | None:
        raw = said.get("step", said.get("global_step"))
        if raw is None:
            return None
        self._key = self._key or StepKey()
        return self._key.read(raw)


def _held_out(name: str) -> bool:
    return name.startswith("eval_") and name.endswith("loss")


def _pairs(inner: str) -> dict[str, str]:
    """The items of a printed dict, values as text without their quotes; ValueError where it is none."""
    said = {}
    for item in inner.split(", "):
        name, colon, raw = item.partition(": ")
        key = name[1:-1]
        if not colon or name != f"'{key}'" or "'" in key or key in said:
            raise ValueError(item)
        said[key] = raw[1:-1] if raw[:1] == "'" and raw[-1:] == "'" else raw
    return said


def parser(attempt: int) -> HfParser:
    return HfParser(attempt)
