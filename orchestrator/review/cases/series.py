"""Series of values in a short notation, after promtool's.

3.2              one value
9x3              three of them
3.2-0.001x200    200 values, each 0.001 lower than the one before; + goes up
2.1~0.02x300     300 values with repeatable noise of at most 0.02 around 2.1
nan inf _        not finite; _ is a record without this value
webx300 codex50  words, for phases
"""

import math
import re
from collections.abc import Sequence

LIMIT = 1_000_000  # values of one series
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"(-?{_NUMBER})(?:([+-])({_NUMBER}))?(?:~({_NUMBER}))?(?:x(\d+))?")
_WORD = re.compile(r"(\S*?[^\sx\d]\S*?|_)(?:x(\d+))?")
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def numbers(text: str) -> tuple[float | None, ...]:
    """The values of a series; ValueError says which part cannot be read.

    >>> numbers("3-0.5x3 9 _ 1x2")
    (3.0, 2.5, 2.0, 9.0, None, 1.0, 1.0)
    """
    values: list[float | None] = []
    for token in text.split():
        word = _WORD.fullmatch(token)
        if word and word[1] in (*_SPECIAL, "_"):
            values += [_SPECIAL.get(word[1])] * int(word[2] or 1)
        elif found := _TOKEN.fullmatch(token):
            values += _numbers(found, len(values))
        else:
            raise ValueError(f"{token!r} is no part of a series; write 3.2, 9x3, 3.2-0.001x200, 2~0.01x50, nan or _")
        if len(values) > LIMIT:
            raise ValueError(f"more than {LIMIT} values")
    return tuple(values)


def _numbers(found: re.Match[str], before: int) -> list[float | None]:
    first, slope = float(found[1]), float(found[3] or 0.0) * (-1.0 if found[2] == "-" else 1.0)
    noise, count = float(found[4] or 0.0), min(int(found[5] or 1), LIMIT + 1)
    return [first + slope * i + noise * _wave(before + i) for i in range(count)]


def _wave(index: int) -> float:
    """A repeatable disturbance between -1 and 1 that looks like noise."""
    return math.sin(index * 12.9898) * math.cos(index * 78.233)


def words(text: str) -> tuple[str | None, ...]:
    """The words of a series.

    >>> words("web web codex2 _")
    ('web', 'web', 'code', 'code', None)
    """
    found: list[str | None] = []
    for token in text.split():
        match = re.fullmatch(r"(\S+?)(?:x(\d+))?", token)
        word, count = (match[1], int(match[2] or 1)) if match else (token, 1)
        found += [None if word == "_" else word] * min(count, LIMIT + 1)
        if len(found) > LIMIT:
            raise ValueError(f"more than {LIMIT} values")
    return tuple(found)


def at(values: Sequence[float | None], index: int) -> float | None:
    """A value of a series, None after its end."""
    return values[index] if index < len(values) else None
