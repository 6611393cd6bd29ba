"""One writer: each supervisor takes the next epoch by exclusive create, and the highest epoch alone may act.

A lease is alive while its heartbeat is seen to move; clocks of hosts are never compared. On the owner's
own host its process is asked instead, which is at once sure. A lock on the folder of epochs decides between two
that start at the same moment; where the file system knows no locks, or a dead host still holds one, the epochs
alone decide.
"""

import fcntl
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
        self._lock = self._locked()
        known = read_json(run.lease)
        if _lives(run.lease, known) or (self._lock is None and _moves(run.lease, known)):
            self._unlock()
            raise _busy(run)
        self._owner = identity(os.getpid())
        self.epoch = self._take()
        self._beats = 0
        self._next = 0.0
        self.beat()

    def _locked(self) -> int | None:
        """The handle of the lock; None while another holds it."""
        try:
            self._run.epochs.mkdir(exist_ok=True)
            handle = os.open(self._run.epochs / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise RunDirError(f"{self._run.path}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError:
            pass
        return handle

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take(self) -> int:
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
        """Show that we live; cheap to call often. RunBusyError once another took the run over."""
        now = time.monotonic()
        if now < self._next:
            return
        self.check()
        self._next = now + BEAT
        self._beats += 1
        # Not synced: after a crash of the host there is no owner anyway.
        write_json(self._run.lease, {"epoch": self.epoch, "owner": self._owner, "beat": self._beats}, sync=False)

    def check(self) -> None:
        """RunBusyError where ours is no longer the highest epoch: asked before a decision is written down."""
        if not self.held():
            raise _busy(self._run)

    def release(self) -> None:
        """Leave nothing that could look alive."""
        if self.held():
            write_text(self._run.lease, "{}")
        self._unlock()


def _busy(run: RunDir) -> RunBusyError:
    owner = (read_json(run.lease) or {}).get("owner")
    who = f" (process {owner['pid']} on {owner['host']})" if owner else ""
    look = f"look with: orchestrate status {run.path}"
    return RunBusyError(f"{run.path}: another supervisor acts on this run{who}; {look}")


def _lives(path: Path, known: dict[str, Any] | None) -> bool:
    if not known:
        return False
    if here(known["owner"]):
        return alive(known["owner"])
    return _moves(path, known)


def _moves(path: Path, known: dict[str, Any] | None) -> bool:
    """Whether a heartbeat is seen in time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(0.5)
        if read_json(path) != known:
            return True
    return False
