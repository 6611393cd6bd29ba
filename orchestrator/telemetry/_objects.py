"""JSON objects, one a line, NaN and Infinity literals included."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.telemetry._line import LineParser, Row
from orchestrator.telemetry._table import Keyed

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def decode(text: str) -> dict[str, Any]:
    """One JSON object; ValueError for anything else.

    >>> decode('{"loss": NaN}')
    {'loss': nan}
    """
    try:
        return _decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        if "NaN" not in text and "Infinity" not in text:
            raise ValueError(text) from error
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(text) from error
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


class ObjectParser(LineParser):
    """Records of named values; `declared` says {field of a Step: key} where the well-known names do not serve."""

    def __init__(self, attempt: int, declared: Mapping[str, str] | None = None) -> None:
        super().__init__(attempt)
        self.keyed = Keyed(declared)

    def rows(self, text: str) -> Sequence[Row] | None:
        return self.keyed.read(decode(text))

    def rest(self) -> Sequence[Row]:
        return self.keyed.rest()
