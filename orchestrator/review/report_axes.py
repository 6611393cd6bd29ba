"""Scales, ticks and the look that all parts of the picture share."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.review.report_markup import Markup, tag

# Okabe and Ito's colours, told apart by colour-blind eyes, darkened where small text is written in them.
INK, MUTED, GRID, PAPER, BAND = "#1f2328", "#59636e", "#e4e7eb", "#ffffff", "#f4f6f8"
ATTEMPTS = ("#0072b2", "#008060", "#aa4d8c", "#7a6a00", "#3d95c9")
ALARM, MILD = "#c44601", "#8a6100"
FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
CHAR = 0.54  # a character's width in its font's size, on average


def colour_of(attempt: int) -> str:
    """An attempt's colour."""
    return ATTEMPTS[(attempt - 1) % len(ATTEMPTS)]


class Scale(NamedTuple):
    """A line from values to pixels; values outside are drawn at the edge."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = math.log(max(value, self.low)) if self.log else value
        share = (at - low) / (high - low) if high > low else 0.5
        return self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values between two, at most so many.

    >>> ticks(0, 1000, 6)
    [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
    """
    if high <= low:
        return [low]
    rough = (high - low) / most
    base: float = 10.0 ** math.floor(math.log10(rough))
    step = next(base * m for m in (1.0, 2.0, 5.0, 10.0, 20.0) if (high - low) / (base * m) < most)
    return [round(i * step, 12) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Values for a logarithmic scale.

    >>> log_ticks(1.7, 9.3)
    [2.0, 3.0, 5.0, 8.0]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0, 2.0, 3.0, 5.0, 8.0) if high / low < 50 else (1.0, 3.0) if high / low < 1e4 else (1.0,)
    found = [round(m * 10.0**d, 12) for d in decades for m in steps]
    return [value for value in found if low <= value <= high]


def extent(values: Sequence[float], room: float = 6.0) -> tuple[float, float]:
    """The range that is drawn: all of it, unless single values lie so far out that nothing else could be read.

    `room`: how many times the range of all but the outer 2 % may be drawn above it.
    """
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    inner_low, inner = ordered[len(ordered) // 50], ordered[-1 - len(ordered) // 50]
    spread = (inner - inner_low) or abs(inner) or 1.0
    low, high = max(low, inner_low - room * spread), min(high, inner + room * spread)
    return (low, high) if high > low else (low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0))


def words(x: float, y: float, text: str, size: float = 15, **look: str | float | None) -> Markup:
    """Text at a place."""
    return tag("text", text, x=x, y=y, font_size=size, **{"fill": INK, **look})


def width_of(text: str, size: float) -> float:
    """About how wide a text is."""
    return CHAR * size * len(text)


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = GRID, **look: str | float | None) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **look)
