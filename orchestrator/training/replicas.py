"""Whether replicas still are: a sum over a few weights, which ranks that train the same model share to the last bit.

It rides the exchange every EVERY steps. Nobody tells whether the ranks hold the same weights or parts of one model, so
the first comparison decides: ranks that agreed once and do not any more are odd.
"""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

EVERY = 100  # steps
TAKEN, FIRST = 4, 1024  # parameters, and elements of each


class Replicas:
    """One rank's sums, and on rank 0 the comparison."""

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        every = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
        stride = max(len(every) // TAKEN, 1)
        self._taken = [] if any(isinstance(p, DTensor) for p in every) else every[::stride][:TAKEN]
        self._trusted: bool | None = None

    def value(self) -> Tensor | None:
        """The sum as it is now, one float64 on the weights' device; due every EVERY steps."""
        if not self._taken:
            return None
        with torch.no_grad():
            sums = [p.detach().flatten()[:FIRST].double().sum() for p in self._taken]
            return torch.stack([value.to(sums[0].device) for value in sums]).sum()

    def odd(self, values: Sequence[float]) -> list[int]:
        """The ranks that left the majority; all of them where there is none, no one where they never agreed.

        >>> replicas = Replicas([])
        >>> replicas.odd([1.5, 1.5, 1.5]), replicas.odd([1.5, 1.25, 1.5]), replicas.odd([1.5, 2.0, 2.5])
        ([], [1], [0, 1, 2])
        """
        (most, times), *_ = Counter(values).most_common(1)
        if self._trusted is None:
            self._trusted = times == len(values)
        if not self._trusted or times == len(values):
            return []
        return [rank for rank, value in enumerate(values) if value != most or times * 2 <= len(values)]
