"""The eyes on one attempt: its telemetry as it grows, its checkpoints, its end. It only puts facts on the queue."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from orchestrator import registry
from orchestrator.config import AttemptDir
from orchestrator.core.facts import Announced, Checkpoint, Ended, Eval, Exited, Fact, Step
from orchestrator.runtime.causes import cause_of
from orchestrator.runtime.examine import examined, whole
from orchestrator.runtime.identity import MARK, alive, here, marked
from orchestrator.runtime.origin import traced
from orchestrator.runtime.output import HEAD, TAIL, forget
from orchestrator.store.journal import At, Record
from orchestrator.store.patience import StorageError
from orchestrator.telemetry._text import Lines, fed
from orchestrator.wire import TELEMETRY, read_json

TOLD = (Announced, Step, Eval, Checkpoint, Ended)  # what telemetry tells
POLL, POLL_MOST = 0.2, 1.0  # where every look finds something, ever more of it together: a look that wakes costs most
HURRY = 0.05
LOOK = 4.0  # seconds between two looks at the processes, which cost more than a look at a file
CHUNK = 1 << 20
FAR_PATIENCE = 15.0  # seconds without a count from a keeper on another host
KEEPER_START = 20.0  # seconds after which a keeper that wrote nothing counts as dead


class Watch(threading.Thread):
    """Reads one attempt until it has ended and everything it wrote is read.

    `place` is how far a supervisor before us had read: bytes, and how many facts after them it had journaled.
    """

    def __init__(
        self, folder: AttemptDir, attempt: int, place: tuple[int, int], put: Callable[[list[Record] | Exception], None],
        clock: Callable[[], float], options: dict[str, Any],
    ) -> None:  # fmt: skip
        super().__init__(name=f"watch-{attempt}", daemon=True)
        self._folder, self._attempt, self._put, self._clock = folder, attempt, put, clock
        kind = str(options["telemetry"].get("kind", "wire"))
        name = TELEMETRY if kind == "wire" else "output.log"
        self._file = Path(options["telemetry"].get("path") or folder.path / name)
        self._ours = self._file == folder.output  # it grows without an end, and what was read is of no more use
        self._passed = self._sent = self._forgotten = 0
        self._parser = registry.load("telemetry", kind).parser(attempt)
        self._layout = registry.load("checkpoints", str(options["checkpoints"]["layout"]))
        self._archived = getattr(self._layout, "archive_path", lambda path, step: "")
        self._cwd, self._storage = str(options["cwd"]), options["storage"]
        self._lines = Lines()
        self._path, self._gone = str(self._file), str(folder.exit)
        self._offset, self._known = place
        self._stepped = place != (0, 0)
        self._began = self._beaten = time.monotonic()
        self._beat: Any = None
        self._look = 0.0
        self._done = self._hurried = self._near = False
        self._wake = threading.Event()

    def run(self) -> None:
        """Until the attempt is over, or `stop`."""
        try:
            pause = POLL
            while not self._done:
                record, found = self._ended(), False
                while (size := self._read()) > 0:
                    found = True
                    if size < CHUNK and record is None:  # to look again would meet the loop at what it was just handed
                        break
                if record is not None:
                    self._last_words()
                    self._put([Record(self._exit(record))])
                    return
                pause = min(pause * 1.1, POLL_MOST) if found and not self._near else POLL
                pause = HURRY if self._hurried else pause
                self._wake.wait(pause)
                self._wake.clear()
        except Exception as error:  # noqa: BLE001  a source's thread must not die unheard
            self._put(error)

    def hurry(self) -> None:
        """The attempt is being ended: its last words and its end are awaited."""
        self._hurried = True
        self._wake.set()

    def attend(self, near: bool) -> None:
        """Look often while something is the matter: what confirms it is awaited."""
        if near and not self._near:
            self._wake.set()
        self._near = near

    def stop(self) -> None:
        """Look no more."""
        self._done = True
        self._wake.set()

    # --- telemetry -----------------------------------------------------------------------------------

    def _read(self) -> int:
        """Pass on what was appended; how many bytes were looked at, CHUNK where there may be more."""
        try:
            more = os.stat(self._path).st_size - self._offset
            if more <= 0:
                return 0
            with open(self._path, "rb", buffering=0) as file:
                file.seek(self._offset)
                data = file.read(min(more, CHUNK))
        except FileNotFoundError:
            return 0
        whole = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not whole and len(data) < CHUNK:
            return 0
        size = len(data)
        data = data[: whole or len(data)]
        self._offset += len(data)
        self._pass(fed(self._parser, self._lines.feed(data)))
        self._passed = self._offset
        return size

    def _last_words(self) -> None:
        self._pass([*fed(self._parser, self._lines.close()), *self._parser.close()])

    def _pass(self, facts: Sequence[Fact]) -> None:
        now, at = self._clock(), At(self._file.name, self._offset)
        self._sent = self._offset if facts else self._sent
        known, self._known = min(self._known, len(facts)), max(self._known - len(facts), 0)
        records: list[Record] = []
        for fact in facts[known:]:
            if isinstance(fact, Step):
                self._stepped = True
                fact = fact._replace(time=now)
                fact = traced(self._folder.path, fact) if fact.nonfinite else fact
            elif isinstance(fact, Checkpoint):
                self._put(records)  # a look at a checkpoint takes its time
                records = []
                fact = self._verified(fact._replace(time=now, path=whole(fact.path, self._cwd)))
            records.append(Record(fact))
        if records:  # only the last fact of what was read together moves the place to read on from: nothing is lost
            self._put([*records[:-1], records[-1]._replace(at=at)])

    def let_go(self, journaled: int, sync: Callable[[], None]) -> None:
        """The job's output up to where its facts are journaled gives back its room on the disk; called by the loop."""
        passed = self._passed
        behind = passed if journaled >= self._sent else journaled  # asked after `passed`: what has no facts goes too
        end = behind - TAIL
        if self._ours and end - self._forgotten >= TAIL:
            sync()
            self._forgotten = end if forget(self._file, max(self._forgotten, HEAD), end) else 1 << 62

    def _verified(self, seen: Checkpoint) -> Checkpoint:
        if seen.state != "saved" or not seen.path:
            return seen
        if self._archived(seen.path, seen.step):
            return seen._replace(state="started", why="its trainer overwrites it; its copy will be the checkpoint")
        try:
            return examined(self._layout, seen)
        except StorageError as error:  # the storage thread asks again
            return seen._replace(state="started", why=str(error))

    # --- the end -------------------------------------------------------------------------------------

    def _ended(self) -> dict[str, Any] | None:
        """The exit record, or one made here when the keeper was killed and nothing of the job is left."""
        if os.path.exists(self._gone) and (record := read_json(self._gone)) is not None:
            return dict(record)
        now = time.monotonic()
        if now < self._look:
            return None
        self._look = now + LOOK
        process = read_json(self._folder.process)
        if process is None:
            late = time.monotonic() - self._began > KEEPER_START
            return {"code": None, "signal": None, "why": "its keeper did not start"} if late else None
        if not here(process):
            return self._far(process)
        # Without a keeper the job goes on; what it leaves behind is ended here.
        if alive(process["keeper"]) or alive(process) or os.path.exists(self._gone):
            return None
        launch = read_json(self._folder.launch) or {}
        left = marked(launch.get("env", {}).get(MARK, ""))
        for member in left:
            with contextlib.suppress(psutil.Error, OSError):
                member.kill()
        return None if left else {"code": None, "signal": None}

    def _far(self, process: dict[str, Any]) -> dict[str, Any] | None:
        """A job of another host, or of an earlier boot of this one: it lives as long as its keeper's count moves."""
        beat = read_json(self._folder.beat)
        if beat != self._beat:
            self._beat, self._beaten = beat, time.monotonic()
        if process["host"] != socket.gethostname() and time.monotonic() - self._beaten < FAR_PATIENCE:
            return None
        why = f"host {process['host']} of the job is gone, or was started anew"
        return {"code": None, "signal": None, "lost": True, "why": why}

    def _exit(self, record: dict[str, Any]) -> Exited:
        cause, why = cause_of(record, self._folder.output, self._folder.error, self._stepped)
        self._put([Record(fact) for fact in self._storage.last_words(self._attempt, cause)])
        return Exited(self._attempt, record.get("code"), record.get("signal"), cause, why, self._clock())
