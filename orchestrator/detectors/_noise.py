"""What several detectors ask: the signal they watch, and of a few numbers their median, deviation and grain."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from orchestrator.core.facts import Step

SQRT2 = 2.0**0.5
TWO_KINDS = 1.5  # the 80 % point tells of so much more than the median: two kinds of batches
UPPER_POINTS = 40  # upper residuals before anything is said of them
TAIL_POINTS = 60  # below so many upper residuals nothing is said of their tail


def value_of(point: Step, signal: Literal["loss", "grad_norm"]) -> float | None:
    """The signal that a detector was told to watch."""
    return point.loss if signal == "loss" else point.grad_norm


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number the mean of the two.

    >>> median([3.0, 1.0, 2.0]), median([1.0, 2.0])
    (2.0, 1.5)
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def spread_of(residuals: Sequence[float], differences: Sequence[float], dense: bool = True) -> float:
    """A robust standard deviation of what is to be judged from above.

    1.4826 times the median absolute deviation of neighbours' differences over sqrt(2) (a trend does not
    move it), or the upper residuals' 95 % point over 1.96 (a falling curve has none): for a Gaussian both
    are sigma (Rousseeuw and Croux, 1993); slow noise raises the second, and where the 99 % point over 2.576
    tells of heavier tails, that. Before there are enough residuals, the 80 % point of a `dense` log's differences
    over 1.2816 where it tells of batches of two kinds; a log of many steps a point averages over them.
    """
    if not differences:
        return 0.0
    middle = median(differences)
    apart = sorted([abs(d - middle) for d in differences])
    spread = 1.4826 * median(apart) / SQRT2
    upper = sorted([residual for residual in residuals if residual > 0.0])
    last = len(upper) - 1
    if last < UPPER_POINTS:
        wide = apart[int(0.8 * (len(apart) - 1))] / (1.2816 * SQRT2) if dense else 0.0
        return wide if wide > TWO_KINDS * spread else spread
    spread = max(spread, upper[int(0.95 * last)] / 1.96)
    tail = upper[int(0.99 * last)] / 2.576 if last >= TAIL_POINTS else 0.0
    return max(spread, tail)


def grain(values: Sequence[float]) -> float:
    """The last digit's worth where values repeat, as rounded ones do; 0 for values that hardly ever do.

    >>> grain([0.0001] * 8), grain([0.1234567, 0.2345678, 0.3456789])
    (0.0001, 0.0)
    """
    distinct = set(values)
    if 2 * len(distinct) > len(values):
        return 0.0
    exponents = [Decimal(repr(value)).as_tuple().exponent for value in distinct]
    return float(10.0 ** min(int(exponent) for exponent in exponents))
