"""What keeps the hook from ever raising into the trainer: a part that fails goes quiet, training goes on."""

import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

TELEMETRY = "telemetry"  # the part that tells of steps

P = ParamSpec("P")
T = TypeVar("T")


def warn(text: str) -> None:
    """One line on stderr; a closed stderr is no reason to stop training."""
    try:
        sys.stderr.write(f"orchestrate: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return


class Shield:
    """Runs the parts of the hook by name. The first exception of a part is told once and puts that part to sleep.

    Parts sleep apart: telemetry that cannot be written must not let the ordered learning rate jump back.
    """

    def __init__(self) -> None:
        self.asleep: set[str] = set()

    def run(self, part: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What `work` returns; None when it failed, or when its part is asleep."""
        if part in self.asleep:
            return None
        try:
            return work(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  the trainer is kept from our faults
            self.failed(part, error)
            return None

    def failed(self, part: str, error: Exception) -> None:
        """Tell of a part's first failure and put it to sleep."""
        if part not in self.asleep:
            self.asleep.add(part)
            warn(f"the hook's {part} failed ({type(error).__name__}: {error}); training goes on without it")
