"""What several detectors ask of a few numbers: their median, their deviation, the grain they are printed with."""

from collections.abc import Sequence
from decimal import Decimal


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number the mean of the two.

    >>> median([3.0, 1.0, 2.0]), median([1.0, 2.0])
    (2.0, 1.5)
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def spread_of(residuals: Sequence[float]) -> float:
    """A robust standard deviation: 1.4826 times the median of |residual|, or the 95 % point over 1.96.

    For a Gaussian both are its sigma; heavy tails raise the second (Rousseeuw and Croux, 1993, on the first).
    """
    sizes = sorted(map(abs, residuals))
    if not sizes:
        return 0.0
    return max(1.4826 * sizes[len(sizes) // 2], sizes[int(0.95 * (len(sizes) - 1))] / 1.96)


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
