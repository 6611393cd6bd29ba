"""Which attempt a record of a text belongs to: trainers append, so one text may hold several attempts."""

from orchestrator.core.facts import Announced


class Attempts:
    """Follows the steps of the train stream: a step lower than one already seen is a restart.

    The same step again is a repeat (another rank, a refreshed line); so is a step that another rank
    has already told. Ranks are told apart by their labels.

    >>> attempts = Attempts(1)
    >>> [attempts.place(step) for step in (1, 2, 2, 3)]
    [(), (), None, ()]
    >>> [(told.attempt, told.start_step) for told in attempts.place(2) or ()]
    [(2, 1)]
    """

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.newest = -1  # the highest step of this attempt so far
        self._first = -1
        self._own: dict[str, int] = {}

    def place(self, step: int, rank: str = "") -> tuple[Announced, ...] | None:
        """What must be told before this record; None when the record is a repeat."""
        if step > self.newest:
            if self.newest < 0:
                self._first = step
            self.newest = self._own[rank] = step
            return ()
        own = self._own.get(rank)
        fell_back = step < own if own is not None else self._first < step < self.newest
        if fell_back:
            return self.restart(step, rank)
        self._own[rank] = step
        return None

    def restart(self, step: int, rank: str = "") -> tuple[Announced]:
        """Begin the next attempt, whose first record is `step`."""
        self.attempt += 1
        self._own = {rank: step}
        self._first = self.newest = step
        return (Announced(self.attempt, max(step - 1, 0)),)
