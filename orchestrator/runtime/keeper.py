"""The keeper of one attempt's job: starts it, waits, leaves nothing behind, writes the exit record.

It outlives the supervisor, so that training does too and the exit code is never lost. Run as
`python -m orchestrator.runtime.keeper ATTEMPT_DIR`; everything it needs stands in launch.json there.
SIGTERM asks it to end the job: SIGTERM to the job, a grace, SIGKILL to the whole tree.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from orchestrator.runtime.identity import identity
from orchestrator.wire import read_json, write_json

PR_SET_CHILD_SUBREAPER = 36
LEFTOVER_GRACE = 2.0


def main(folder: str) -> int:
    """Keep one attempt; 0 also when another keeper already does."""
    attempt = Path(folder)
    try:
        os.close(os.open(attempt / "keeper.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return 0
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(ignored, signal.SIG_IGN)
    asked: list[float] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    launch = read_json(attempt / "launch.json")
    try:
        job = _start(launch, attempt)
    except OSError as error:
        why = f"{launch['command'][0]}: {error.strerror}"
        write_json(attempt / "exit.json", {"code": None, "signal": None, "spawn": why, "time": time.time()})
        return 0
    write_json(attempt / "process.json", {**identity(job.pid), "keeper": identity(os.getpid())})
    code = _wait(job, asked, float(launch["grace"]))
    left = _sweep(LEFTOVER_GRACE if not asked else 0.5)
    record = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None, "leftover": left}
    write_json(attempt / "exit.json", {**record, "asked": bool(asked), "time": time.time()})
    return 0


def _start(launch: dict[str, Any], attempt: Path) -> "subprocess.Popen[bytes]":
    with open(attempt / "output.log", "ab") as output:
        return subprocess.Popen(
            launch["command"],
            cwd=launch["cwd"],
            env={**os.environ, **launch["env"]},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(job: "subprocess.Popen[bytes]", asked: list[float], grace: float) -> int:
    """The job's return code; after SIGTERM to us it is told, and killed when its grace is over."""
    told = False
    while True:
        try:
            return job.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            _reap(job.pid)
        if asked and not told:
            told = True
            for process in _family():
                _send(process, signal.SIGTERM)
        if asked and time.monotonic() - asked[0] > grace:
            for process in _family():
                _send(process, signal.SIGKILL)


def _family() -> list[psutil.Process]:
    """Every process below us: the job, and orphans of it that came to us as their subreaper."""
    return psutil.Process().children(recursive=True)


def _send(process: psutil.Process, what: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        process.send_signal(what)
        if what == signal.SIGTERM:
            process.send_signal(signal.SIGCONT)


def _sweep(grace: float) -> int:
    """End what the job left behind; how many there were."""
    left = [process for process in _family() if process.status() != psutil.STATUS_ZOMBIE]
    for process in left:
        _send(process, signal.SIGTERM)
    psutil.wait_procs(left, timeout=grace)
    while family := [process for process in _family() if _alive(process)]:
        for process in family:
            _send(process, signal.SIGKILL)
        psutil.wait_procs(family, timeout=1.0)
        _reap(0)
    return len(left)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _reap(job: int) -> None:
    """Collect orphans that ended, without touching the job's own exit."""
    for process in _family():
        if process.pid != job and not _alive(process):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
