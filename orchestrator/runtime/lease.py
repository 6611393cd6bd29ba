"""One writer: each supervisor takes the next epoch by exclusive create, and the highest epoch alone may act.

A lease is alive while its heartbeat is seen to move; clocks of hosts are never compared. On the owner's
own host its process is asked instead, which is at once sure.
"""

import os
import time
from pathlib import Path
from typing import Any

from orchestrator.config import RunDir
from orchestrator.errors import RunBusyError, RunDirError
from orchestrator.runtime.identity import alive, here, identity
from orchestrator.wire import read_json, write_json, write_text

BEAT = 2.0  # seconds between two heartbeats
PATIENCE = 10.0  # seconds without a heartbeat from another host after which its supervisor counts as dead


class Lease:
    """The right to act on a run, held by its highest epoch."""

    def __init__(self, run: RunDir) -> None:
        """Take the next epoch; RunBusyError while another supervisor lives."""
        self._run = run
        known = read_json(run.lease)
        if _lives(run.lease, known):
            owner = known["owner"]
            raise RunBusyError(
                f"{run.path}: another supervisor acts on this run (process {owner['pid']} on {owner['host']}); "
                f"look with: orchestrate status {run.path}"
            )
        self._owner = identity(os.getpid())
        self.epoch = self._take()
        self._beats = 0
        self._next = 0.0
        self.beat()

    def _take(self) -> int:
        self._run.epochs.mkdir(exist_ok=True)
        while True:
            epoch = self.highest() + 1
            try:
                handle = os.open(self._run.epochs / f"{epoch:06d}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            except FileExistsError:
                continue
            except OSError as error:
                raise RunDirError(f"{self._run.path}: cannot be written: {error.strerror}") from error
            os.close(handle)
            return epoch

    def highest(self) -> int:
        """The highest epoch that was ever taken."""
        return max((int(name) for name in os.listdir(self._run.epochs) if name.isdigit()), default=0)

    def held(self) -> bool:
        """Whether ours still is the highest: asked before every apply."""
        return self.highest() == self.epoch

    def beat(self) -> None:
        """Show that we live; cheap to call often."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + BEAT
        self._beats += 1
        write_json(self._run.lease, {"epoch": self.epoch, "owner": self._owner, "beat": self._beats})

    def release(self) -> None:
        """Leave nothing that could look alive."""
        if self.held():
            write_text(self._run.lease, "{}")


def _lives(path: Path, known: dict[str, Any] | None) -> bool:
    if not known:
        return False
    if here(known["owner"]):
        return alive(known["owner"])
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(0.5)
        if read_json(path) != known:
            return True
    return False
