"""As process 1 of a container we inherit every orphan; each must be waited for, or its entry stays for ever."""

import contextlib
import os
import time

import psutil

EVERY = 1.0


class Reaper:
    """Waits for children that stay dead for a whole look: who started a child himself has waited for it by then."""

    def __init__(self) -> None:
        self._dead: set[int] = set()
        self._next = 0.0

    def look(self) -> None:
        """Cheap to call often; does nothing unless we are process 1."""
        now = time.monotonic()
        if os.getpid() != 1 or now < self._next:
            return
        self._next = now + EVERY
        dead = {child.pid for child in psutil.Process().children() if _dead(child)}
        for pid in dead & self._dead:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._dead = dead - self._dead


def _dead(child: psutil.Process) -> bool:
    try:
        return child.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
