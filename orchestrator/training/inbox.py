"""Directives in: what the supervisor wants of this attempt, as absolute levels in one small file."""

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator import wire
from orchestrator.core.facts import Cut

POLL_SECONDS = 0.05


class Directive(NamedTuple):
    """The levels in force: cuts of the rate, scale of the clip, and what is asked for.

    `mtbf` is the mean time between failures that the supervisor has seen, in seconds; 0 where it says nothing.
    """

    epoch: int = 0
    cuts: tuple[Cut, ...] = ()
    clip_scale: float = 1.0
    save: int = 0
    stop: str = ""
    dense_until: int = 0
    mtbf: float = 0.0


def directive_of(raw: Any, attempt: int) -> Directive | None:
    """The directive of a file's JSON; None when it is meant for another attempt, or is none.

    >>> directive_of({"epoch": 2, "attempt": 1, "cuts": [[0.5, 100, None, None]]}, attempt=1).cuts
    (Cut(factor=0.5, step=100, after=None, over=None),)
    """
    try:
        if raw["attempt"] != attempt or raw.get("stop", "") not in ("", "now", "save"):
            return None
        cuts = tuple(_cut(*cut) for cut in raw.get("cuts", ()))
        scale = float(raw.get("clip_scale", 1.0))
        if not 0.0 < scale < float("inf"):
            return None
        save, dense, mtbf = int(raw.get("save", 0)), int(raw.get("dense_until", 0)), float(raw.get("mtbf", 0.0))
        return Directive(int(raw["epoch"]), cuts, scale, save, raw.get("stop", ""), dense, mtbf)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _cut(factor: float, step: int, after: int | None = None, over: int | None = None) -> Cut:
    if not 0.0 <= factor < float("inf"):
        raise ValueError("a cut's factor is a finite number")
    return Cut(float(factor), int(step), after if after is None else int(after), over if over is None else int(over))


class Inbox:
    """Reads the directive file when it changed, looking at most twenty times a second."""

    def __init__(self, path: Path, attempt: int, first: Directive) -> None:
        self._path, self._attempt = str(path), attempt
        self._seen: tuple[int, int, int] | None = None
        self._next = 0.0
        self.current = first

    def poll(self) -> Directive:
        """The levels in force now; a file that is missing, broken, old or not ours changes nothing."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + POLL_SECONDS
            self._look()
        return self.current

    def _look(self) -> None:
        try:
            stat = os.stat(self._path)
        except OSError:
            return
        mark = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if mark == self._seen:
            return
        self._seen = mark
        found = directive_of(wire.read_json(self._path), self._attempt)
        if found is not None and found.epoch >= self.current.epoch:
            self.current = found
