"""The World of the actions: what they do to the job, through files, signals and the keeper.

Everything here may be done twice: a started attempt is not started again, a stopped one is stopped.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from orchestrator import registry, wire
from orchestrator.config import AttemptDir, Config, RunDir
from orchestrator.core.facts import Action, Announced, Checkpoint, Fact, Launched
from orchestrator.core.launch import Start, command, tokens
from orchestrator.core.policy import Policy
from orchestrator.core.schedule import plan_of
from orchestrator.core.state import Levels
from orchestrator.runtime.examine import examined, reached, unfit
from orchestrator.runtime.identity import MARK, alive, here, marked
from orchestrator.runtime.notices import Notices
from orchestrator.store.patience import patiently
from orchestrator.wire import read_json, write_json, write_text

POLL = 0.02
STARTED_WITHIN = 20.0
SILENT = 5.0  # seconds without a line after which a job that was asked to stop counts as stuck
SIGNAL_GRACE = 10.0  # seconds between the keeper's SIGTERM and its SIGKILL


class JobWorld:
    """One run's job. `levels`, `attempt` and `epoch` are what the supervisor last wished for."""

    def __init__(
        self, config: Config, run: RunDir, policy: Policy, put: Callable[[Fact], None], clock: Callable[[], float]
    ) -> None:
        self._config, self._run, self._policy, self._put, self._clock = config, run, policy, put, clock
        self.notices = Notices(run)
        self._keepers: list[subprocess.Popen[bytes]] = []
        self.levels = Levels()
        self.attempt = 0
        self.epoch = 0
        self.hook = True
        self.run_id = ""
        self.mtbf = 0.0
        self.checkpoints: tuple[Checkpoint, ...] = ()
        self._proved = ""

    # --- what actions do ------------------------------------------------------------------------------

    def start(self, attempt: int, step: int, checkpoint: str) -> str:
        """Start an attempt from a checkpoint and say so by a Launched fact; a started one is only said again."""
        folder = self._run.attempt(attempt)
        self.attempt = attempt
        if read_json(folder.process) is None and read_json(folder.exit) is None:
            self._prove(step, checkpoint)
            self._proved = ""
            self._prepare(folder, attempt, step, checkpoint)
            self._keep(folder)
        process = self._begun(folder)
        launched = Launched(
            attempt, step, checkpoint, process.get("host", ""), int(process.get("pid", 0)), self._clock()
        )
        self._put(launched)
        if self._config.telemetry["kind"] != "wire":
            self._put(self._announced(attempt, step))
        return f"attempt {attempt} runs as process {launched.pid} from step {step}"

    def stop(self, attempt: int, save: bool = False) -> str:
        """Ask through the directive, then through the keeper, then kill; nothing of the attempt is left after it."""
        folder = self._run.attempt(attempt)
        began = time.monotonic()
        self._direct(attempt, stop="save" if save else "now")
        how = "at a step boundary"
        if not self._gone(folder, self._config.stop_grace if self.hook else 0.0, folder.path / wire.TELEMETRY):
            how = "by SIGTERM"
            process = read_json(folder.process) or {}
            self._end(folder, process.get("keeper"))
            if not self._gone(folder, self._grace() + 5.0):
                how = "by SIGKILL"
                self._kill(folder, process)
        return f"stopped {how} in {time.monotonic() - began:.1f} s"

    def direct(self) -> str:
        """Write the levels for the running trainer."""
        self._direct(self.attempt)
        return "the trainer was told" if self.hook else "written; this trainer reads no directives"

    def exclude(self, shards: Sequence[str]) -> str:
        """The list is part of the levels and written at each launch; here only said."""
        return f"{len(shards)} shard(s) left out from the next launch on"

    def exclude_hosts(self, hosts: Sequence[str]) -> str:
        """The hosts are part of the levels and handed to the launcher; here only said."""
        return f"{', '.join(hosts)} left out from the next launch on"

    def notify(self, action: Action) -> str:
        """Hand the action's words to every channel."""
        more = {"incident": action.incident, "attempt": action.attempt, "step": action.step}
        return self.notices.tell(action.why, **more)

    def point_to(self, step: int, checkpoint: str) -> str:
        """Move the layout's pointers."""
        if not checkpoint:
            return "the run will start afresh"
        if read_json(self._run.attempt(self.attempt + 1).launch) is not None:  # what it saved must not be set aside
            return f"attempt {self.attempt + 1} was started from {checkpoint} already"
        self._prove(step, checkpoint)
        layout = registry.load("checkpoints", str(self._config.checkpoints["layout"]))
        fs, path = reached(checkpoint)
        root = path.rpartition("/")[0]
        found = next((each for each in patiently(lambda: layout.scan(fs, root)) if each.path == path), None)
        if found is None:
            raise FileNotFoundError(f"{checkpoint} is gone")
        done = patiently(lambda: layout.point_to(fs, root, found))
        return "; ".join([f"the run goes on from {checkpoint}", *done])

    def _prove(self, step: int, checkpoint: str) -> None:
        """Read every byte of what is about to be loaded, once a way back; what is wrong is a fact and an error."""
        if checkpoint in ("", self._proved):
            return
        layout = registry.load("checkpoints", str(self._config.checkpoints["layout"]))
        known = next((c for c in self.checkpoints if c.path == checkpoint), Checkpoint(0, step, checkpoint, "saved"))
        if known.state == "saved":
            known = examined(layout, known, full=True)
        if known.state != "saved":
            self._put(known._replace(time=self._clock()))
            raise OSError(f"{checkpoint}: {known.why}")
        if why := unfit(known, self._config.launcher.get("ranks")):
            raise OSError(why)
        self._proved = checkpoint

    def dump(self, attempt: int) -> str:
        """Ask every Python process of the attempt for its stacks; they write them to stacks/.

        A process without the hook is looked into from outside where py-spy is installed.
        """
        folder = self._run.attempt(attempt)
        folder.stacks.mkdir(exist_ok=True)
        before = {path.name for path in folder.stacks.iterdir() if path.stat().st_size}
        asked, looked = 0, 0
        for process in self._members(folder):
            if (folder.stacks / f"{process.pid}.txt").exists():  # it registered the signal
                with contextlib.suppress(psutil.Error, OSError):
                    process.send_signal(signal.SIGUSR2)
                    asked += 1
            elif (spy := shutil.which("py-spy")) is not None:
                looked += _looked_into(spy, process.pid, folder.stacks)
        deadline = time.monotonic() + 3.0
        while time.monotonic() < deadline:
            new = [path for path in folder.stacks.iterdir() if path.stat().st_size and path.name not in before]
            if len(new) >= asked:
                break
            time.sleep(POLL)
        return f"{asked + looked} process(es) gave their stacks, kept in {folder.stacks}"

    def _announced(self, attempt: int, step: int) -> Announced:
        """What a trainer that is not touched cannot say itself."""
        job = self._config.job
        skips = any("{skip}" in word for word in (*job.command, *job.resume))
        return Announced(attempt, step, job.total_steps, time=self._clock(), skips=skips)

    # --- starting -------------------------------------------------------------------------------------

    def _prepare(self, folder: AttemptDir, attempt: int, step: int, checkpoint: str) -> None:
        """Everything that the job finds when it starts; `launch.json` last."""
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.stacks.mkdir(exist_ok=True)
        write_json(folder.path / wire.PLAN, plan_of(self._policy))
        shards = tuple(shard for shard, *_ in self.levels.quarantine)
        write_text(folder.quarantine, wire.quarantine_text(shards))
        mark = (read_json(folder.launch) or {}).get("env", {}).get(MARK) or uuid.uuid4().hex
        fill = tokens(self._policy, self.levels, Start(attempt, step, checkpoint, self.hook), self._config.job.own)
        scale = fill["{lr_scale}"]
        fill |= {"{quarantine}": str(folder.quarantine), "{run_dir}": str(self._run.path)}
        launcher = registry.load("launchers", str(self._config.launcher["kind"]))
        reset = self.levels.reset_at == step
        options = {**self._config.launcher, "attempt": attempt, "exclude": self.levels.hosts}
        words = launcher.command(command(self._words(checkpoint, reset), fill), options)
        env = {
            wire.RUN_DIR: str(self._run.path), wire.ATTEMPT: str(attempt), wire.RESUME: checkpoint,
            wire.QUARANTINE: str(folder.quarantine), wire.LR_SCALE: scale, MARK: mark,
            wire.RESET_MOMENTS: "1" if reset else "",
            wire.CHECKPOINTS: self.checkpoint_root(), wire.RUN: self.run_id, "PYTHONPATH": self._path(),
            "TORCHELASTIC_ERROR_FILE": str(folder.error), "PYTHONUNBUFFERED": "1", **self._config.job.env,
        }  # fmt: skip
        save_base, told = self.levels.save, self._config.telemetry.get("kind", "wire")
        launch = {
            "command": words, "cwd": self._config.job.cwd, "env": env, "grace": self._grace(), "save": save_base,
            "parsed": told != "wire" and not self._config.telemetry.get("path"),
        }  # fmt: skip
        write_json(folder.launch, launch)
        self._direct(attempt)

    def _words(self, checkpoint: str, reset: bool) -> tuple[str, ...]:
        """The command of one launch: the job's own, what resuming takes, and what a numerical incident changed."""
        job = self._config.job
        resumed = (*job.resume, *(job.reset_moments if reset else ())) if checkpoint else ()
        return (*job.command, *resumed, *self.levels.override)

    def checkpoint_root(self) -> str:
        """Where the job's checkpoints are, absolute; below the run directory unless named otherwise."""
        root = str(self._config.checkpoints["root"])
        return root if "://" in root else str(self._run.path / root)

    def _path(self) -> str:
        """PYTHONPATH with a folder that holds this very package and nothing else of our environment."""
        link = self._run.package / "orchestrator"
        self._run.package.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(Path(__file__).resolve().parent.parent, link)
        given = self._config.job.env.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
        return f"{self._run.package}{os.pathsep}{given}" if given else str(self._run.package)

    def _keep(self, folder: AttemptDir) -> None:
        """Start the keeper in a session of its own: it outlives us."""
        self._keepers = [keeper for keeper in self._keepers if keeper.poll() is None]
        source = str(Path(__file__).resolve().parent.parent.parent)
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        with open(folder.path / "keeper.log", "ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "orchestrator.runtime.keeper", str(folder.path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        self._keepers.append(keeper)

    def reap(self) -> None:
        """Wait for the keepers that ended, which is soon after their exit record; no zombie of ours stays."""
        for keeper in self._keepers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                keeper.wait(timeout=2.0)

    @staticmethod
    def _begun(folder: AttemptDir) -> dict[str, Any]:
        """Wait until the keeper says that the job runs, or that it cannot."""
        deadline = time.monotonic() + STARTED_WITHIN
        while time.monotonic() < deadline:
            process = read_json(folder.process)
            if process is not None:
                return dict(process)
            if read_json(folder.exit) is not None:
                return {}
            time.sleep(POLL)
        raise TimeoutError(f"the keeper did not start within {STARTED_WITHIN:.0f} s; see {folder.path / 'keeper.log'}")

    # --- telling and ending ---------------------------------------------------------------------------

    def _direct(self, attempt: int, stop: str = "") -> None:
        folder = self._run.attempt(attempt)
        base = (read_json(folder.launch) or {}).get("save", 0)
        levels = self.levels
        body: Mapping[str, Any] = {
            "epoch": self.epoch, "attempt": attempt, "cuts": [list(cut) for cut in levels.cuts],
            "clip_scale": levels.clip_scale, "save": levels.save - base, "dense_until": levels.dense_until,
            "mtbf": self.mtbf, "stop": stop,
        }  # fmt: skip
        write_json(folder.path / wire.DIRECTIVE, body)

    def _gone(self, folder: AttemptDir, within: float, pulse: Path | None = None) -> bool:
        """Wait until the attempt has its exit record; a vanished keeper is as good once nothing is left.

        A job that writes nothing to `pulse` for a while is stuck and will not answer: no more waiting then. One
        that said its last word has answered, and is only slow to leave.
        """
        deadline = time.monotonic() + within
        beat, still = -1, time.monotonic()
        while read_json(folder.exit) is None:
            if pulse is not None and (size := _size(pulse)) != beat:
                beat, still = size, time.monotonic()
            if pulse is not None and time.monotonic() - still > SILENT and not _ended(pulse):
                return False
            process = read_json(folder.process)
            if process is not None and here(process) and not alive(process["keeper"]) and not self._members(folder):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL)
        return True

    def _members(self, folder: AttemptDir) -> list[psutil.Process]:
        """Every living process of the attempt on this host, except its keeper."""
        mark = (read_json(folder.launch) or {}).get("env", {}).get(MARK)
        return marked(mark) if mark else []

    def _end(self, folder: AttemptDir, keeper: dict[str, Any] | None) -> None:
        """Ask the keeper to end the job: by a signal here, by a file on another host."""
        if here(keeper):
            self._signal(keeper, signal.SIGTERM)
        else:
            write_text(folder.end, "")

    def _grace(self) -> float:
        """From SIGTERM to SIGKILL: a trainer that reads no directives saves when it is told by the signal."""
        patient = self._config.telemetry.get("kind", "wire") != "wire"
        return max(SIGNAL_GRACE, self._config.stop_grace) if patient else SIGNAL_GRACE

    @staticmethod
    def _signal(known: dict[str, Any] | None, what: signal.Signals) -> None:
        if known is not None and alive(known):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(known["pid"]), what)

    def _kill(self, folder: AttemptDir, process: dict[str, Any]) -> None:
        """The last means, also against a keeper that does not answer."""
        deadline = time.monotonic() + 10.0
        while (members := self._members(folder)) and time.monotonic() < deadline:
            for member in members:
                with contextlib.suppress(psutil.Error, OSError):
                    member.kill()
            psutil.wait_procs(members, timeout=1.0)
        if not self._gone(folder, 5.0):
            self._signal(process.get("keeper"), signal.SIGKILL)
        if left := self._members(folder):
            raise OSError(f"processes {[member.pid for member in left]} cannot be ended")


def _looked_into(spy: str, pid: int, stacks: Path) -> bool:
    """Write one process's stacks by py-spy; whether it was a Python process that let us."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([spy, "dump", "--pid", str(pid)], capture_output=True, timeout=5.0, check=True)
        (stacks / f"{pid}.spy.txt").write_bytes(done.stdout)
        return True
    return False


def _ended(pulse: Path) -> bool:
    """Whether the last line of a telemetry file is the trainer's last word."""
    try:
        with open(pulse, "rb") as file:
            file.seek(max(_size(pulse) - 4096, 0))
            return b'"type":"end"' in file.read().rstrip().rpartition(b"\n")[2].replace(b" ", b"")
    except OSError:
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
