"""A process is known by host, boot, pid and start time, never by its pid alone."""

import contextlib
import functools
import os
import socket
from typing import Any

import psutil

MARK = "ORCHESTRATE_MARK"  # in the environment of every process of one attempt


@functools.cache
def boot_id() -> str:
    """Names this boot of this host."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return str(int(psutil.boot_time()))


def identity(pid: int) -> dict[str, Any]:
    """What tells this process from every other."""
    started = None
    with contextlib.suppress(psutil.NoSuchProcess):
        started = psutil.Process(pid).create_time()
    return {"host": socket.gethostname(), "boot": boot_id(), "pid": pid, "started": started}


def here(known: dict[str, Any] | None) -> bool:
    """Whether an identity speaks of this host and boot."""
    return known is not None and known.get("host") == socket.gethostname() and known.get("boot") == boot_id()


def alive(known: dict[str, Any] | None) -> bool:
    """Whether exactly this process still runs on this host."""
    if known is None or not here(known):
        return False
    try:
        process = psutil.Process(int(known["pid"]))
        same = known["started"] is None or abs(process.create_time() - float(known["started"])) < 0.05
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError):
        return False


def marked(mark: str) -> list[psutil.Process]:
    """Every living process of this host that carries an attempt's mark, wherever it was re-parented to."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
    return found
