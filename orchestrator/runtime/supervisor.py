"""The supervisor: one queue, one loop. Sources put facts on it, the loop journals, decides and hands on.

    fact -> journal -> decide -> journal (the decision) -> actuator -> outcome, again a fact

Nothing here decides. A crash at any point is recovered by folding the journal: recorded decisions are
trusted, what has no outcome is applied again, what was not decided yet is decided now.
"""

import contextlib
import gc
import queue
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeAlias

from orchestrator import __version__
from orchestrator.config import Config, RunDir, redacted
from orchestrator.core import decide as core
from orchestrator.core.facts import Checkpoint, Decision, Fact, Launched, Order, Supervised, Tick
from orchestrator.core.interval import interval
from orchestrator.core.lifecycle import adopt, deadline
from orchestrator.core.rules import Rules
from orchestrator.core.state import FINAL, State, first
from orchestrator.registry import load as plugin
from orchestrator.runtime import orders, retention
from orchestrator.runtime.actuator import Actuator
from orchestrator.runtime.lease import Lease
from orchestrator.runtime.priority import WATCHING, giving_way
from orchestrator.runtime.reaper import Reaper
from orchestrator.runtime.storage import Place, Storage
from orchestrator.runtime.watch import TOLD, Watch
from orchestrator.runtime.world import JobWorld
from orchestrator.store import snapshot
from orchestrator.store.journal import OURS, START, Journal, Record
from orchestrator.store.policy_text import Loaded, yaml_dump
from orchestrator.store.recorded import Recorded, fold, rules_of

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
NEWS = frozenset({"held", "failed", "stopped"})  # endings that a person wants to be told of
SNAPSHOT = 50_000  # records between two snapshots of the state
SECOND_THOUGHT = 3.0  # seconds between the first Ctrl-C and the leaving
LOOK = 0.2  # seconds between two looks at orders and the heartbeat, at least
BEAT = 1.0  # seconds the loop waits at most
Item: TypeAlias = list[Record] | Exception
Listener: TypeAlias = Callable[[State, Fact], None]


class Detached(Exception):
    """The supervisor was asked to leave the job running."""


class Supervisor:
    """One run's supervisor, from taking the lease to the final status."""

    def __init__(self, config: Config, run: RunDir, loaded: Loaded, rules: Rules, listen: Listener) -> None:
        self._config, self._run, self._rules, self._listen = config, run, rules, listen
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()  # a signal's handler may put on it too
        self._taken: deque[Record] = deque()  # off the queue, not worked through yet
        self._lease = Lease(run)
        wall, mono = time.time(), time.monotonic()
        self._clock: Callable[[], float] = lambda: wall + time.monotonic() - mono  # a clock that never jumps
        self._world = JobWorld(config, run, rules.policy, self._say, self._clock)
        self._world.epoch = self._lease.epoch
        self._known = snapshot.load(run.snapshot)
        try:
            self._journal = Journal(run.journal, _header(config, loaded), self._known.mark if self._known else START)
        except BaseException:
            self._lease.release()
            raise
        self._policy = loaded
        self._world.run_id = str(self._journal.header.get("run", ""))
        where = Place(
            self._world.checkpoint_root(), str(config.checkpoints["layout"]),
            config.telemetry["kind"] == "wire", self._world.run_id,
        )  # fmt: skip
        self._storage = Storage(run, where, self._say, self._clock)
        self._actuator = Actuator(
            self._world, lambda fact: self._queue.put([Record(fact)]), self._clock, self._lease.held
        )
        self._reaper = Reaper()
        self._look = 0.0
        self._saved_at = 0  # the record of the newest snapshot
        self._watches: dict[int, Watch] = {}
        self._signals: list[str] = []
        self._detach_at: float | None = None
        self._read_to: dict[int, tuple[int, int]] = {}  # of each attempt's telemetry: bytes, and facts after them
        self.notice = ""  # the signal by which the cluster took the run away
        self.state = first(rules)

    def run(self) -> State:
        """Supervise until the run has a final status; raises Detached after a Ctrl-C without a second one."""
        old = [(number, signal.signal(number, self._signal)) for number in SIGNALS]
        try:
            changed = self._recover()
            self._actuator.start()  # it starts the job, hence does not give way
            with giving_way(WATCHING):
                self._take_up(changed)
                gc.freeze()  # what is there now stays: looking through it again and again would be half of our cost
                while self.state.status not in FINAL or self.state.pending:
                    self._look_around()
                    self._work(self._next())
            return self.state
        finally:
            gc.unfreeze()
            self._close()
            for number, handler in old:
                signal.signal(number, handler)

    # --- recovery -------------------------------------------------------------------------------------

    def _recover(self) -> bool:
        """Fold the journal; the past is not decided again. Whether the policy is another than before."""
        start, header = None, self._journal.header
        if self._known is not None and self._journal.begin.number:
            rules = rules_of({**header, "policy": self._known.policy})
            start, self._read_to = Recorded(rules, self._known.digest, self._known.state), self._known.read_to
        recorded = fold(header, self._journal.recovered, start)
        for record in self._journal.recovered:
            self._remember(record)
        self._saved_at = self._journal.begin.number
        self._journal.recovered = []
        self.state = adopt(recorded.rules, self._rules, recorded.state)
        return recorded.digest != self._policy.digest

    def _take_up(self, changed: bool) -> None:
        """Join the run where it stands: watch what runs, apply what was decided, decide what was not."""
        self._storage.begin(self.state)
        self._storage.start()
        for each in retention.left_over(self.state):
            self._storage.remove(each)
        for attempt in self.state.attempts:
            if attempt.exited is None:
                self._watch(attempt.number)
        self._set_levels()
        for ordered in self.state.actions:
            if ordered.applied and ordered.status == "ordered":
                self._actuator.order(ordered.action)
        self._obey_orders()
        place: tuple[tuple[str, str], ...] = getattr(
            plugin("launchers", str(self._config.launcher["kind"])), "place", tuple
        )()
        text = yaml_dump(self._policy.raw) if changed else ""
        fact = Supervised(self._lease.epoch, self._clock(), self._policy.digest, __version__, text, place)
        self._work(Record(fact))
        if self.state.status not in FINAL:
            self._run.exit.unlink(missing_ok=True)

    def _watch(self, attempt: int) -> None:
        place = self._read_to.get(attempt, (0, 0))
        options = {
            "telemetry": self._config.telemetry, "checkpoints": self._config.checkpoints,
            "cwd": self._config.job.cwd, "storage": self._storage,
        }  # fmt: skip
        watch = Watch(self._run.attempt(attempt), attempt, place, self._queue.put, self._clock, options)
        self._watches[attempt] = watch
        watch.start()

    # --- the loop -------------------------------------------------------------------------------------

    def _next(self) -> Record | None:
        if not self._taken:
            try:
                item = self._queue.get(timeout=BEAT)
            except queue.Empty:
                return None
            if isinstance(item, Exception):
                raise item
            self._taken.extend(item)
        return self._taken.popleft() if self._taken else None

    def _look_around(self) -> None:
        """What comes by no thread of its own: the heartbeat, signals, operators' orders, the time."""
        if time.monotonic() >= self._look:
            self._look = time.monotonic() + LOOK
            self._lease.beat()
            self._reaper.look()
            self._obey_orders()
            for attempt, watch in self._watches.items():
                watch.let_go(self._read_to.get(attempt, (0, 0))[0], self._journal.sync)
        if self._signals:
            self._answer_signals()
        if self._detach_at is not None and time.monotonic() >= self._detach_at:
            raise Detached
        if self._taken or not self._queue.empty():
            return
        if self.state.attempt in self._watches:
            self._watches[self.state.attempt].attend(self.state.current is not None)
        due = deadline(self._rules, self.state)
        if due is not None and self._clock() >= due:
            self._work(Record(Tick(self._clock())))

    def _obey_orders(self) -> None:
        for path, order in orders.take(self._run, self._clock()):
            self._work(Record(order))
            path.unlink(missing_ok=True)

    def _answer_signals(self) -> None:
        """The first Ctrl-C detaches after a moment in which a second one stops the job.

        Every other signal is the cluster's notice: one checkpoint more, then requeue. Those that follow it are the
        same notice again.
        """
        taken, self._signals = self._signals, []
        for name in taken:
            why = f"{name} to the supervisor"
            if name != "SIGINT":
                self.notice = self.notice or name
                if not self.state.stop:
                    self._work(Record(Order("preempt", "the cluster", self._clock(), why)))
            elif self._detach_at is None:
                self._detach_at = time.monotonic() + SECOND_THOUGHT
                self._listen(self.state, Order("detach", orders.me(), self._clock()))
            else:
                self._detach_at = None
                self._work(Record(Order("stop", orders.me(), self._clock(), why)))

    def _work(self, record: Record | None) -> None:
        """One fact through: journaled, decided on, decisions journaled, actions handed on."""
        if record is None:
            return
        fact = record.fact
        self._journal.append(record)
        self._remember(record)
        self.state, decisions = core.decide(self._rules, self.state, fact)
        if decisions:
            self._lease.check()
            self._set_levels()
            if self.state.status == "stopping" and self.state.attempt in self._watches:
                self._watches[self.state.attempt].hurry()
        for decision in decisions:
            self._journal.append(Record(decision))
        for decision in decisions:
            self._listen(self.state, decision)
            if decision.mode == "act":
                for action in decision.actions:
                    self._actuator.order(action)
            elif decision.mode == "propose":
                self._ask(decision)
        if isinstance(fact, Launched) and fact.attempt not in self._watches:
            self._watch(fact.attempt)
        self._storage.follow(self.state)
        if isinstance(fact, Checkpoint):
            self._keep_house(fact)
        self._listen(self.state, fact)
        if self._journal.end.number - self._saved_at >= SNAPSHOT:
            self._save()

    def _remember(self, record: Record) -> None:
        """How far telemetry was read, for whoever comes after us."""
        if isinstance(record.fact, TOLD) and record.at != OURS:
            attempt = record.fact.attempt
            offset, told = self._read_to.get(attempt, (0, 0))
            self._read_to[attempt] = (record.at.offset, 0) if record.at else (offset, told + 1)

    def _save(self) -> None:
        """A snapshot: a shortcut for the next supervisor, never missed where it cannot be written."""
        self._saved_at = self._journal.end.number
        self._journal.sync()
        text = yaml_dump(self._policy.raw)
        made = snapshot.Snapshot(self._journal.end, self._policy.digest, text, self._read_to, self.state)
        with contextlib.suppress(OSError, TypeError):
            snapshot.save(self._run.snapshot, made)

    def _keep_house(self, fact: Checkpoint) -> None:
        """Digests for a complete checkpoint, and what the policy keeps no longer: journaled first, then removed."""
        self._storage.take(fact)
        gone = retention.due(self._rules, self.state) if fact.state == "saved" else []
        if not gone or not self._lease.held():
            return
        for each in gone:
            self._work(Record(retention.removed(each, self._clock()), OURS))
        self._journal.sync()
        for each in gone:
            self._storage.remove(each)

    def _ask(self, decision: Decision) -> None:
        """Tell people outside that a yes is awaited."""
        verbs = ", ".join(action.verb for action in decision.actions)
        say = f"orchestrate ctl {self._run.path} approve {decision.incident}"
        self._world.notices.tell(f"{decision.why}; proposed: {verbs}. To do it: {say}", incident=decision.incident)

    def _say(self, fact: Fact) -> None:
        """A fact of our own; one of a checkpoint must not count as read from telemetry."""
        self._queue.put([Record(fact, OURS if isinstance(fact, Checkpoint) else None)])

    def _set_levels(self) -> None:
        """What the World is to write next; plain values, set before the actions that need them are ordered."""
        self._world.mtbf, self._world.checkpoints = interval(self.state).mtbf, self.state.checkpoints
        self._world.levels, self._world.attempt = self.state.levels, self.state.attempt
        self._world.hook = self.state.hook or not self.state.attempt

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(signal.Signals(number).name)
        self._queue.put([])

    def _close(self) -> None:
        for watch in self._watches.values():
            watch.stop()
        self._actuator.finish()
        self._storage.finish()
        for thread in (*self._watches.values(), self._actuator, self._storage):
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(timeout=5.0)
        if self.state.status in FINAL:
            self._world.reap()
            if self.state.status in NEWS:
                self._world.notices.tell(f"the run is {self.state.status}: {self.state.why}", state=self.state.status)
        self._world.notices.finish()
        self._journal.close()
        self._lease.release()


def _header(config: Config, loaded: Loaded) -> dict[str, Any]:
    return {
        "journal": 1,
        "version": __version__,
        "run": uuid.uuid4().hex,
        "policy_file": loaded.file,
        "policy": yaml_dump(loaded.raw),
        "digest": loaded.digest,
        "overrides": list(config.overrides),
        "config": redacted(config.values),
    }
