"""The thread that looks after what stands on disk: digests after a save, removals that were journaled, and, for
jobs whose telemetry does not tell of checkpoints, the news of their root.

It never decides and never stands in the way of the loop or the trainer: what it sees becomes a fact, what it
does was journaled before. It polls, because shared file systems tell nobody of changes.
"""

import logging
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from orchestrator import registry
from orchestrator.checkpoints import Found
from orchestrator.checkpoints._digest import write_digests
from orchestrator.checkpoints._retention import remove
from orchestrator.checkpoints._stamp import stamp
from orchestrator.checkpoints._tree import held, is_local
from orchestrator.config import RunDir
from orchestrator.core.facts import Checkpoint, Fact, Room
from orchestrator.core.state import State
from orchestrator.core.storage import crowded
from orchestrator.runtime.examine import examined, full_path, reached
from orchestrator.store.patience import UNASKED, patiently
from orchestrator.wire import read_json, write_json

SCAN = 2.0  # seconds between two looks at the root, at least
SHARE = 20  # a look may take one part in so many of the time
LATER = 30.0  # seconds after which what storage refused is tried again
TRIES = 20
_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where a run's checkpoints stand, in which layout, and whether its telemetry tells of them."""

    root: str
    layout: str
    told: bool
    run: str


class _Task(NamedTuple):
    do: Callable[[Checkpoint], None]
    checkpoint: Checkpoint
    tries: int = 0
    after: float = 0.0


class Storage(threading.Thread):
    """One run's; `begin` before the first launch, `take` for every fact of a checkpoint."""

    def __init__(self, run: RunDir, place: Place, put: Callable[[Fact], None], clock: Callable[[], float]) -> None:
        super().__init__(name="storage", daemon=True)
        self._run, self._place, self._put, self._clock = run, place, put, clock
        self._layout: Any = registry.load("checkpoints", place.layout)
        self._tasks: queue.Queue[_Task | None] = queue.Queue()
        self._looking = threading.Lock()
        self._told: dict[str, Checkpoint] = {}  # what was said last of a path
        self._archived: dict[str, str] = {}  # the stamp of what an archive is the copy of
        self._foreign: dict[str, str] = {}
        self._attempt, self._crowded, self._done = 0, False, False

    # --- called by the loop ---------------------------------------------------------------------------

    def begin(self, state: State) -> None:
        """Know what is known; before the first attempt, whatever stands in the root is another run's."""
        self.follow(state)
        self._told = {c.path: c for c in state.checkpoints}
        if self._place.told:
            return
        known = read_json(self._run.foreign)
        if known is None:
            known = {} if state.attempts else patiently(self._stamps)
            write_json(self._run.foreign, known)
        self._foreign = known

    def follow(self, state: State) -> None:
        """The attempt that is running, and whether the run waits for room."""
        self._attempt, self._crowded = state.attempt, bool(crowded(state))

    def take(self, fact: Checkpoint) -> None:
        """News of a checkpoint: a complete one gets its digests, one overwritten in place is archived."""
        self._told[fact.path] = fact
        if fact.state == "saved":
            self._tasks.put(_Task(self._digest, fact))
        elif fact.why.startswith(UNASKED):
            self._tasks.put(_Task(self._ask_again, fact))
        elif fact.state == "started" and self._archive_of(fact.path, fact.step):
            self._tasks.put(_Task(self._archive, fact))

    def remove(self, checkpoint: Checkpoint) -> None:
        """Delete what a journaled fact already calls missing."""
        self._tasks.put(_Task(self._remove, checkpoint))

    def finish(self) -> None:
        """End after the task at hand."""
        self._done = True
        self._tasks.put(None)

    # --- the thread -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Until `finish`; what storage refuses is tried again later, and said."""
        waiting: list[_Task] = []
        wait, look_at = SCAN, time.monotonic() + SCAN
        while not self._done:
            try:
                task = self._tasks.get(timeout=wait)
                waiting += [] if task is None else [task]
            except queue.Empty:
                pass
            waiting = [left for task in waiting if (left := self._try(task)) is not None]
            if time.monotonic() >= look_at:
                began = time.monotonic()
                self._try(_Task(lambda _: self._news(), Checkpoint(0, 0, "", "missing")))
                look_at = time.monotonic() + max(SCAN, SHARE * (time.monotonic() - began))

    def _try(self, task: _Task) -> _Task | None:
        """None when it is done or given up, else the task to try again."""
        if self._done or task.after > time.monotonic():
            return task
        try:
            task.do(task.checkpoint)
        except Exception as error:  # noqa: BLE001  a source's thread must not die of what storage does
            _log.warning("%s: %s: %s", task.checkpoint.path or self._place.root, type(error).__name__, error)
            again = task._replace(tries=task.tries + 1, after=time.monotonic() + LATER)
            return again if task.checkpoint.path and again.tries < TRIES else None
        return None

    def _news(self) -> None:
        if self._crowded and (room := self.room()) is not None and room.free >= room.needed:
            self._put(room)
            self._crowded = False
        if not self._place.told and self._attempt:
            self.look(self._attempt)

    # --- what it does ---------------------------------------------------------------------------------

    def _digest(self, checkpoint: Checkpoint) -> None:
        fs, path = reached(checkpoint.path)
        try:
            why = patiently(lambda: write_digests(fs, path))
        except FileNotFoundError:  # set aside or removed while it was read
            return
        if why and why != "it is gone":
            _log.warning("%s has no digests: %s", checkpoint.path, why)

    def _ask_again(self, checkpoint: Checkpoint) -> None:
        fact = examined(self._layout, checkpoint._replace(state="saved", why=""))
        self._tell(fact._replace(time=self._clock()))

    def _remove(self, checkpoint: Checkpoint) -> None:
        fs, path = reached(checkpoint.path)
        mine = [each for each in patiently(lambda: self._layout.scan(fs, path.rpartition("/")[0])) if each.path == path]
        if mine and mine[0].attempt not in (None, checkpoint.attempt):
            return  # another attempt wrote here since
        patiently(lambda: remove(fs, Found(checkpoint.step, path, True)))

    def _archive_of(self, path: str, step: int) -> str:
        name = getattr(self._layout, "archive_path", None)
        return str(name(path, step)) if name is not None else ""

    def _archive(self, checkpoint: Checkpoint) -> None:
        """Copy a file that its trainer overwrites; the copy is the checkpoint."""
        target = self._archive_of(checkpoint.path, checkpoint.step)
        fs, path = reached(checkpoint.path)
        why = patiently(lambda: self._layout.archive(fs, path, reached(target)[1]))
        if why:
            _log.warning("%s of step %d was not archived: %s", path, checkpoint.step, why)
            return
        self._archived[target] = stamp(fs, path)
        self._tell(checkpoint._replace(path=target, state="saved", why="", time=self._clock()))

    def _tell(self, fact: Checkpoint) -> None:
        self._told[fact.path] = fact
        self._put(fact)

    # --- the root's news ------------------------------------------------------------------------------

    def look(self, attempt: int) -> None:
        """Say what changed below the root, as the work of this attempt; also the last thing before its end is told."""
        with self._looking:
            fs, root = reached(self._place.root)
            seen = patiently(lambda: self._layout.scan(fs, root))
            for found in seen:
                self._say(fs, found, attempt)
            here = {full_path(fs, found.path) for found in seen}
            for known in [c for path, c in self._told.items() if c.state == "saved" and path not in here]:
                self._say_gone(known)

    def _say(self, fs: Any, found: Found, attempt: int) -> None:
        path = full_path(fs, found.path)
        if self._not_ours(fs, found, path):
            return
        if target := self._archive_of(path, found.step):
            if found.complete and stamp(fs, found.path) != self._archived.get(target):
                self._archive(Checkpoint(attempt, found.step, path, "started", time=self._clock()))
            return
        known = self._told.get(path)
        said = known.state if known else ""
        if said in ("saved", "corrupt") or (said == "started" and not found.complete):
            return
        fact = Checkpoint(found.attempt or attempt, found.step, path, "started", found.why, self._clock())
        if found.complete:
            fact = examined(self._layout, fact._replace(state="saved"))
        self._tell(fact)

    def _say_gone(self, known: Checkpoint) -> None:
        fs, bare = reached(known.path)
        if patiently(lambda: fs.exists(bare)):
            return
        why = "it is gone, and no retention of ours removed it"
        parent, _, name = bare.rpartition("/")
        if is_local(fs) and os.path.lexists(f"{parent}/set-aside/{name}"):
            why = "set aside by a rollback"
        self._tell(known._replace(state="missing", why=why, time=self._clock()))

    def _not_ours(self, fs: Any, found: Found, path: str) -> bool:
        """Whether an older run left it: by its marker, else because it stood here before and did not change."""
        if found.run is not None:
            return found.run != self._place.run
        old = self._foreign.get(path)
        return old is not None and patiently(lambda: stamp(fs, found.path)) == old

    def _stamps(self) -> dict[str, str]:
        fs, root = reached(self._place.root)
        return {full_path(fs, found.path): stamp(fs, found.path) for found in self._layout.scan(fs, root)}

    def last_words(self, attempt: int, cause: str) -> list[Fact]:
        """What is to be known before an attempt's end is told: its last checkpoints; after a full disk, the room."""
        try:
            if not self._place.told:
                self.look(attempt)
            room = self.room() if cause == "disk_full" else None
        except OSError as error:  # storage that cannot be asked must not hide the end
            _log.warning("%s: %s: %s", self._place.root, type(error).__name__, error)
            return []
        return [] if room is None else [room]

    def room(self) -> Room | None:
        """The free bytes and those of the newest complete checkpoint; None on object stores, or before the first."""
        fs, root = reached(self._place.root)
        if not is_local(fs):
            return None
        whole = [found for found in patiently(lambda: self._layout.scan(fs, root)) if found.complete]
        needed = sum(held(fs, whole[-1].path).files.values()) if whole else 0
        return Room(shutil.disk_usage(root).free, needed, self._clock()) if needed else None
