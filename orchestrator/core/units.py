"""Quantities as a policy writes them: the unit stands in the value.

Each class is an annotation: it parses the text, says what it wanted when it cannot, and tells a schema
validator both (by the two hooks that pydantic looks for; nothing is imported for it).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_STEPS = re.compile(_NUMBER + r"\s*(K|M|B)?\s+steps?")
_TOKENS = re.compile(_NUMBER + r"\s*(K|M|B|T)?\s+tokens?")
_TIME = re.compile(_NUMBER + r"\s*(ms|s|m|h|d)")
_SHARE = re.compile(_NUMBER + r"\s*%")


def steps(text: object) -> int:
    """A number of steps.

    >>> steps("500 steps"), steps("1 step"), steps("2K steps")
    (500, 1, 2000)
    """
    if isinstance(text, str) and (match := _STEPS.fullmatch(text.strip())):
        value = float(match[1]) * _FACTORS[match[2] or ""]
        if value.is_integer():
            return int(value)
    raise ValueError(f"write a number of steps with its unit, such as '500 steps'; got {text!r}")


def seconds(text: object) -> float:
    """A duration in seconds.

    >>> seconds("30m"), seconds("1.5h")
    (1800.0, 5400.0)
    """
    if isinstance(text, str) and (match := _TIME.fullmatch(text.strip())):
        return float(match[1]) * _SECONDS[match[2]]
    raise ValueError(f"write a time with its unit (s, m, h, d), such as '30m'; got {text!r}")


def share(text: object) -> float:
    """A share of one.

    >>> share("70%")
    0.7
    """
    if isinstance(text, str) and (match := _SHARE.fullmatch(text.strip())):
        return float(match[1]) / 100.0
    raise ValueError(f"write a share with its sign, such as '70%'; got {text!r}")


@dataclass(frozen=True, slots=True)
class Unit:
    """The annotation of one kind of quantity: how its text is read, what it looks like, what is allowed."""

    name: str
    parse: Callable[[object], float]
    pattern: str
    low: float = 0.0
    high: float = float("inf")

    def read(self, text: object) -> float:
        """The value of a text; ValueError says what was wanted."""
        value = self.parse(text)
        if not self.low <= value <= self.high:
            limit = f"at least {self.low:g}" if value < self.low else f"at most {self.high:g}"
            raise ValueError(f"{text!r} is out of range: {limit}")
        return value

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], object]) -> dict[str, object]:
        function = {"type": "no-info", "function": self.read}
        return {"type": "function-before", "function": function, "schema": handler(source)}

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, object]:
        return {"type": "string", "pattern": f"^\\s*{self.pattern}\\s*$", "title": self.name}


@dataclass(frozen=True, slots=True)
class Plain:
    """The annotation of a bare number: never a text, never a boolean, never NaN."""

    whole: bool = False
    low: float = 0.0

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> dict[str, object]:
        if self.whole:
            return {"type": "int", "strict": True, "ge": int(self.low)}
        return {"type": "float", "strict": True, "ge": self.low, "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class Before:
    """The annotation of a value that may be written in a shorter form, unfolded before it is validated."""

    unfold: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], object]) -> dict[str, object]:
        function = {"type": "no-info", "function": self.unfold}
        return {"type": "function-before", "function": function, "schema": handler(source)}


Count = Annotated[int, Plain(whole=True)]
Positive = Annotated[int, Plain(whole=True, low=1)]
Real = Annotated[float, Plain()]
Steps = Annotated[int, Unit("steps", steps, _STEPS.pattern, low=1)]
Seconds = Annotated[float, Unit("time", seconds, _TIME.pattern)]
Share = Annotated[float, Unit("share", share, _SHARE.pattern)]
Fraction = Annotated[float, Unit("share up to 100%", share, _SHARE.pattern, high=1.0)]


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often: every so many steps, seconds or tokens, or `auto` (Young-Daly, from measured costs)."""

    value: float
    unit: Literal["steps", "seconds", "tokens", "auto"]

    @staticmethod
    def parse(text: object) -> "Cadence":
        """
        >>> Cadence.parse("2B tokens")
        Cadence(value=2000000000.0, unit='tokens')
        """
        if isinstance(text, Cadence):
            return text
        if text == "auto":
            return Cadence(0.0, "auto")
        if isinstance(text, str):
            stripped = text.strip()
            if match := _TOKENS.fullmatch(stripped):
                return Cadence(float(match[1]) * _FACTORS[match[2] or ""], "tokens")
            if _STEPS.fullmatch(stripped) and (count := steps(stripped)):
                return Cadence(float(count), "steps")
            if _TIME.fullmatch(stripped) and (time := seconds(stripped)):
                return Cadence(time, "seconds")
        raise ValueError(f"write '1000 steps', '30m', '2B tokens' or 'auto'; got {text!r}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> dict[str, object]:
        return {"type": "function-plain", "function": {"type": "no-info", "function": cls.parse}}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: object, handler: object) -> dict[str, object]:
        patterns = "|".join(pattern.pattern for pattern in (_STEPS, _TIME, _TOKENS))
        return {"type": "string", "pattern": f"^\\s*({patterns}|auto)\\s*$", "title": "cadence"}
