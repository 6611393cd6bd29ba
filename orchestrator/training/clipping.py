"""A limit that follows the gradient norm itself, beside the policy's fixed one.

A quantile of the last norms (AutoClip, Seetharaman et al. 2020), or their mean and so many standard deviations (ZClip,
Kumar et al. 2025). What enters is at most RISE times the limit of its step: a spike hardly raises the limit that
has to meet the next one, a lasting rise is followed. Only finite norms may be added.
"""

import math
from bisect import bisect_left, insort
from collections import deque

from orchestrator.core.policy import Adaptive as Rule

LEARN = 20  # norms before the first limit
RISE = 2.0


class Adaptive:
    """The limit of the next update from the norms of the last ones.

    >>> rule = Adaptive(Rule(quantile=0.5, within=100))
    >>> for norm in range(1, 22):
    ...     rule.add(float(norm))
    >>> rule.limit()
    11.0
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._norms: deque[float] = deque()
        self._sorted: list[float] = []
        self._limit: float | None = None

    def limit(self) -> float | None:
        """None until enough norms were seen."""
        return self._limit

    def add(self, norm: float) -> None:
        """One finite norm, as it was before clipping."""
        norm = norm if self._limit is None else min(norm, RISE * self._limit)
        self._norms.append(norm)
        insort(self._sorted, norm)
        if len(self._norms) > self._rule.within:
            del self._sorted[bisect_left(self._sorted, self._norms.popleft())]
        if len(self._norms) >= LEARN:
            self._limit = self._found()

    def _found(self) -> float:
        rule, count = self._rule, len(self._sorted)
        if rule.quantile is not None:
            return self._sorted[min(int(rule.quantile * count), count - 1)]
        mean = math.fsum(self._norms) / count
        spread = math.sqrt(math.fsum((norm - mean) ** 2 for norm in self._norms) / count)
        return mean + rule.sigmas * spread
