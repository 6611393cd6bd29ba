"""NaN by omission: many writers leave a NaN out (a blank cell, a null, a missing field).

A training record without its loss counts as one whose loss was not finite when the loss before it was
not finite, or when every training record so far had one. It is known as a training record by another
field that always stood beside the loss. A trainer that logs its loss more rarely than the rest is told
apart by its first records.
"""

import math
from collections.abc import Mapping, Set

_ENOUGH = 3  # records with a loss before a blank is no longer just "not logged"


class Omission:
    """Judges the records of one text, in order.

    >>> omission = Omission()
    >>> for loss in (2.0, 9.0, math.inf): _ = omission.judge({"loss": loss, "lr": 0.1})
    >>> omission.judge({"loss": None, "lr": 0.1})
    {'loss': nan, 'lr': 0.1}
    """

    def __init__(self) -> None:
        self.broken = False  # the last loss was not finite
        self._rows = 0
        self._sparse = False
        self._beside: set[str] | None = None

    def judge(
        self, values: Mapping[str, float | None], held_out: bool = False, bare: bool = False
    ) -> Mapping[str, float | None]:
        """The values with what was left out as NaN; empty when the record says nothing of training.

        `held_out`: the record has evaluations; `bare`: it has nothing but its step.
        """
        loss = values.get("loss")
        known = values
        if None in values.values():
            known = {name: value for name, value in values.items() if value is not None}
        if loss is not None:
            self._saw(loss, known.keys())
            return known
        beside = (self._beside or set()) - {"loss"}
        beside_it = not beside.isdisjoint(known)
        if not beside_it and not bare:
            return known if not held_out else {}
        if self.broken or (self._rows >= _ENOUGH and not self._sparse and not held_out):
            self.broken = True
            return {**dict.fromkeys(sorted(beside - set(known)), math.nan), "loss": math.nan, **known}
        if held_out or bare:
            return {}
        self._sparse = True
        return known

    def _saw(self, loss: float, names: Set[str]) -> None:
        self.broken = not math.isfinite(loss)
        self._rows += 1
        if self._beside is None or not self._beside <= names:
            self._beside = set(names) if self._beside is None else self._beside & names
