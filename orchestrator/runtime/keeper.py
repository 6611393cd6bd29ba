"""The keeper of one attempt's job: starts it, waits, leaves nothing behind, writes the exit record.

It outlives the supervisor, so that training does too and the exit code is never lost. Run as
`python -m orchestrator.runtime.keeper ATTEMPT_DIR`; everything it needs stands in launch.json there.
SIGTERM, or a file named `end` where no signal can reach it, asks it to end the job: SIGTERM to the job's process
group, once (a launcher passes it on itself), a grace, SIGKILL to the whole tree.

It sleeps until a signal comes, its children's ends among them, or until it is time to count and to look.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from orchestrator.config import AttemptDir
from orchestrator.runtime.identity import identity
from orchestrator.runtime.output import shorten
from orchestrator.runtime.priority import WATCHING, give_way
from orchestrator.wire import read_json, write_json

PR_SET_CHILD_SUBREAPER = 36
LEFTOVER_GRACE = 2.0
LOOK = 1.0  # seconds between two looks for the end file and at the output's size
BEAT = 2.0  # seconds between two counts
INSIST = 0.1  # seconds between two SIGKILLs
STUCK = 30.0  # seconds after which a process that SIGKILL does not end is left to its kernel


def main(folder: str) -> int:
    """Keep one attempt; 0 also when another keeper already does."""
    attempt = AttemptDir(Path(folder))
    try:
        os.close(os.open(attempt.path / "keeper.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return 0
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(ignored, signal.SIG_IGN)
    asked: list[float] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
    wake = _woken_by_signals()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    launch = read_json(attempt.launch)
    try:
        job = _start(launch, attempt)
    except OSError as error:
        why = f"{launch['command'][0]}: {error.strerror}"
        write_json(attempt.exit, {"code": None, "signal": None, "spawn": why, "time": time.time()})
        return 0
    give_way(WATCHING)
    write_json(attempt.process, {**identity(job.pid), "keeper": identity(os.getpid())})
    code = _Wait(job, attempt, asked, launch).run(wake)
    left = _sweep(LEFTOVER_GRACE if not asked else 0.5)
    if not launch["parsed"]:
        shorten(attempt.output)
    record = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None, "leftover": left}
    write_json(attempt.exit, {**record, "asked": bool(asked), "time": time.time()})
    return 0


def _start(launch: dict[str, Any], attempt: AttemptDir) -> "subprocess.Popen[bytes]":
    with open(attempt.output, "ab") as output:
        return subprocess.Popen(
            launch["command"],
            cwd=launch["cwd"],
            env={**os.environ, **launch["env"]},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _woken_by_signals() -> int:
    """The end of a pipe that can be read from as soon as any signal came."""
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wake, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    return wake


class _Wait:
    """The job from its start to its end."""

    def __init__(
        self, job: "subprocess.Popen[bytes]", attempt: AttemptDir, asked: list[float], launch: dict[str, Any]
    ) -> None:
        self._job, self._attempt, self._asked = job, attempt, asked
        self._grace, self._parsed = float(launch["grace"]), bool(launch["parsed"])
        self._told, self._count = False, 0
        self._look = self._beat = 0.0

    def run(self, wake: int) -> int:
        """The job's return code; when we are asked to, it is told, and killed when its grace is over."""
        while True:
            _reap(self._job.pid)
            if (code := self._job.poll()) is not None:
                return code
            self._look_around()
            wait = self._answer() if self._asked else LOOK
            select.select([wake], [], [], wait)
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)

    def _look_around(self) -> None:
        """What the keeper shares with other hosts: it counts while it lives, and looks for the end file."""
        now = time.monotonic()
        if now < self._look:
            return
        self._look = now + LOOK
        if now >= self._beat:
            self._beat, self._count = now + BEAT, self._count + 1
            with contextlib.suppress(OSError):  # a full disk is no reason to leave the job alone
                self._attempt.beat.write_text(str(self._count), encoding="ascii")
        if not self._parsed:
            shorten(self._attempt.output)
        if not self._asked and self._attempt.end.exists():
            self._asked.append(now)

    def _answer(self) -> float:
        """Do as we were asked; the seconds until there is more to do."""
        if not self._told:
            self._told = True
            _tell(self._job)
        left = self._asked[0] + self._grace - time.monotonic()
        if left > 0:
            return min(left, LOOK)
        for process in _family():
            _send(process, signal.SIGKILL)
        return INSIST


def _tell(job: "subprocess.Popen[bytes]") -> None:
    """SIGTERM to the job's own group; what is stopped must run to hear it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(job.pid, signal.SIGTERM)
    for process in _family():
        _send(process, signal.SIGCONT)


def _family() -> list[psutil.Process]:
    """Every process below us: the job, and orphans of it that came to us as their subreaper."""
    return psutil.Process().children(recursive=True)


def _send(process: psutil.Process, what: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        process.send_signal(what)


def _sweep(grace: float) -> int:
    """End what the job left behind; how many there were."""
    left = [process for process in _family() if _alive(process)]
    for process in left:
        _send(process, signal.SIGTERM)
        _send(process, signal.SIGCONT)
    psutil.wait_procs(left, timeout=grace)
    deadline = time.monotonic() + STUCK
    while (family := [process for process in _family() if _alive(process)]) and time.monotonic() < deadline:
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
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid != job:
            os.waitpid(dead.si_pid, os.WNOHANG)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
