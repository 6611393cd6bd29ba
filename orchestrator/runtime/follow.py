"""A host that follows: it runs its part of every attempt that host 0 starts, and decides nothing.

All it knows stands in the run directory: the words of an attempt in its launch.json, the attempt's end in its
exit.json, the run's end in exit.json.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from orchestrator.config import AttemptDir, RunDir
from orchestrator.runtime import orders
from orchestrator.wire import read_json, write_json

POLL = 0.2


class Follower:
    """Host number `index` of a run."""

    def __init__(self, run: RunDir, index: int) -> None:
        self._run, self._index = run, index
        self._before = read_json(run.exit)  # of an earlier life: no word to us
        self._told: list[str] = []

    def run(self) -> int:
        """Until the run is over; its exit code. A notice to us is handed on to the supervisor, which saves first."""
        old = [(number, signal.signal(number, self._signal)) for number in (signal.SIGTERM, signal.SIGUSR1)]
        attempt = 1
        try:
            while (over := self._over()) is None:
                self._hand_on()
                folder = self._run.attempt(attempt)
                if read_json(folder.exit) is not None:
                    attempt += 1
                elif folder.launch.exists():
                    self._follow(folder)
                else:
                    time.sleep(POLL)
            return over
        finally:
            for number, handler in old:
                signal.signal(number, handler)

    def _over(self) -> int | None:
        over = read_json(self._run.exit)
        return None if over is None or over == self._before else int(over["code"])

    def _follow(self, folder: AttemptDir) -> None:
        """Our part of one attempt, from its launch to its end; a keeper of our own minds the processes."""
        mine = AttemptDir(folder.path / f"node-{self._index}")
        mine.path.mkdir(exist_ok=True)
        launch: dict[str, Any] = read_json(folder.launch)
        write_json(mine.launch, launch)
        with open(mine.path / "keeper.log", "ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "orchestrator.runtime.keeper", str(mine.path)], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, env={**os.environ, "PYTHONPATH": _path()}, cwd="/",
            )  # fmt: skip
        while read_json(folder.exit) is None and self._over() is None:
            self._hand_on()
            time.sleep(POLL)
        keeper.send_signal(signal.SIGTERM)
        keeper.wait()

    def _hand_on(self) -> None:
        for name in self._told:
            orders.give(self._run, "preempt", f"{name} to host {self._index}")
        self._told = []

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self._told = [signal.Signals(number).name]


def _path() -> str:
    source = str(Path(__file__).resolve().parent.parent.parent)
    return os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
