"""Kills trainer and supervisor at random moments of saving, retention and rollback, and looks at what is left.

`python -m tests.runtime.killing FOLDER` is the supervisor of one such run, its removals and renames slowed down
so that a kill finds them half done.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from orchestrator import registry
from orchestrator.checkpoints import _pointer, _retention
from orchestrator.config import Config, Job, RunDir
from orchestrator.core.evolve import evolve
from orchestrator.core.facts import Checkpoint, Decision
from orchestrator.core.health import health
from orchestrator.core.state import State, first
from orchestrator.review.status import known
from orchestrator.runtime import orders
from orchestrator.runtime.identity import MARK
from orchestrator.runtime.supervisor import Supervisor
from orchestrator.store import journal
from orchestrator.store.policy_text import checked, load_text
from orchestrator.wire import read_json

ROOT = Path(__file__).resolve().parent.parent.parent
SAVER = Path(__file__).with_name("saver.py")
RUNG = "[rollback, {quarantine: suspect window}, relaunch]"
POLICY = f"""\
version: 1
extends: pretrain
checkpoints: {{every: 20 steps, healthy_after: 30 steps, margin: 3 steps, keep: {{last: 2, healthy: 2}}}}
spikes:
  persistent: {{confirm: {{for: 10 steps}}, forget: 1 steps, respond: [{", ".join([RUNG] * 8)}]}}
failures: {{crash: {{max: 100000, respond: [relaunch]}}}}
limits:
  rollbacks: {{max: 60, per: 1 steps}}
  relaunches: {{max: 100000}}
  quarantine: {{max_share: 10%}}
"""
MOMENTS = ("save", "retention", "rollback", "any")


def wrong(path: Path) -> str:
    """What a checkpoint has that no target may have; "" when it is complete and clean."""
    try:
        marker = json.loads((path / "orchestrate.json").read_text())
        state = json.loads((path / "state.json").read_text())
        sizes = {name: (path / name).stat().st_size for name in marker["files"]}
    except (OSError, ValueError) as error:
        return f"{path.name}: {error!r}"
    if sizes != marker["files"]:
        return f"{path.name}: files of the wrong size"
    return f"{path.name}: poisoned" if state["poisoned"] else ""


def template(folder: Path) -> Path:
    """The files of a real checkpoint, for a trainer without torch to write."""
    import torch
    from torch.distributed.checkpoint.state_dict_saver import save

    save({"weights": torch.zeros(64)}, checkpoint_id=folder, no_dist=True)
    return folder


class Killing:
    """One run under fire."""

    def __init__(self, folder: Path, files: Path, seed: int) -> None:
        self.folder, self.dir, self.random = folder, RunDir(folder / "run"), random.Random(seed)
        bad = [number for number in range(16, 4000) if self.random.random() < 0.04]
        (folder / "script.json").write_text(json.dumps({"every": 20, "bad": bad, "template": str(files)}))
        self.dir.path.mkdir(parents=True)
        self.kills = dict.fromkeys((f"{who} {moment}" for who in ("trainer", "supervisor") for moment in MOMENTS), 0)
        self.supervisor: subprocess.Popen[bytes] | None = None

    # --- the two that are killed ----------------------------------------------------------------------

    def supervise(self) -> None:
        """Start a supervisor, after an operator's release where the run was held."""
        if self.dir.journal.exists() and known(self.dir.path)[1].status == "held":
            orders.give(self.dir, "release", "on with it")
        log = open(self.folder / "supervisor.log", "ab")  # noqa: SIM115
        command = [sys.executable, "-m", "tests.runtime.killing", str(self.folder)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
        self.supervisor = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
        log.close()

    def job(self) -> psutil.Process | None:
        """The living trainer."""
        for folder in sorted((self.dir.path / "attempts").glob("*"), reverse=True):
            process = read_json(folder / "process.json")
            if process is not None and not (folder / "exit.json").exists():
                with contextlib.suppress(psutil.Error):
                    return psutil.Process(process["pid"])
        return None

    # --- the moments ----------------------------------------------------------------------------------

    def saving(self) -> bool:
        return any(self.root.glob("*.partial"))

    def removing(self) -> bool:
        return any(not (each / "orchestrate.json").exists() for each in self.root.glob("step-*[0-9]"))

    def rolling_back(self) -> bool:
        try:
            with open(self.dir.journal, "rb") as file:
                file.seek(max(self.dir.journal.stat().st_size - 4096, 0))
                tail = file.read()
        except FileNotFoundError:
            return False
        return b'"verb":"rollback"' in tail and tail.rfind(b'"verb":"rollback"') > tail.rfind(b'"fact":"launched"')

    @property
    def root(self) -> Path:
        return self.dir.path / "checkpoints"

    def await_moment(self, moment: str, within: float = 4.0) -> bool:
        """Whether the moment came; a little into it then."""
        came: dict[str, Callable[[], bool]] = {
            "save": self.saving, "retention": self.removing, "rollback": self.rolling_back, "any": lambda: True,
        }  # fmt: skip
        deadline = time.monotonic() + within
        while not came[moment]():
            if time.monotonic() > deadline or self.supervisor is None or self.supervisor.poll() is not None:
                return False
            time.sleep(0.001)
        time.sleep(self.random.uniform(0.0, 0.5 if moment == "any" else 0.03))
        return True

    # --- one kill -------------------------------------------------------------------------------------

    def kill(self) -> list[str]:
        """Wait for a moment, kill one of the two, start the supervisor again, and say what is wrong."""
        if self.supervisor is None or self.supervisor.poll() is not None:
            self.supervise()
        start = self.size()
        deadline = time.monotonic() + 30.0
        while self.size() < start + 6_000 and time.monotonic() < deadline:  # let it get going
            time.sleep(0.01)
            if self.supervisor is not None and self.supervisor.poll() is not None:
                self.supervise()
        who, moment = self.random.choice(("trainer", "supervisor")), self.random.choice(MOMENTS)
        moment = moment if self.await_moment(moment) else "any"
        if who == "trainer" and (job := self.job()) is not None:
            with contextlib.suppress(psutil.Error):
                job.kill()
        else:
            who = "supervisor"
            self.end_supervisor()
        self.kills[f"{who} {moment}"] += 1
        return self.look() if who == "supervisor" else []

    def size(self) -> int:
        return self.dir.journal.stat().st_size if self.dir.journal.exists() else 0

    def end_supervisor(self) -> None:
        if self.supervisor is not None:
            self.supervisor.send_signal(signal.SIGKILL)
            self.supervisor.wait()

    def look(self) -> list[str]:
        """While no supervisor lives: every checkpoint that counts as healthy stands, complete and clean."""
        if not self.dir.journal.exists():
            return []
        rules, state, _ = known(self.dir.path)
        healthy = [c for c in state.checkpoints if health(rules, state, c).health == "healthy"]
        found = [f"healthy {why}" for c in healthy if (why := wrong(Path(c.path)))]
        told = self.dir.path / "violations.txt"
        return found + (told.read_text().splitlines() if told.exists() else [])

    # --- the end --------------------------------------------------------------------------------------

    def fresh_starts(self) -> list[str]:
        """Relaunches from nothing although a healthy checkpoint from before the onset was known."""
        content = journal.read(self.dir.journal)
        rules, _, _ = known(self.dir.path)
        state: State = first(rules)
        found = []
        for record in content.records:
            fact = record.fact
            if isinstance(fact, Decision):
                found += self._fresh(rules, state, fact)
            state = evolve(rules, state, fact)
        return found

    @staticmethod
    def _fresh(rules: object, state: State, decision: Decision) -> list[str]:
        onset = next((i.onset_low for i in state.incidents if i.id == decision.incident), 1 << 62)
        better = [
            c.path for c in state.checkpoints
            if c.step < onset - 3 and health(rules, state, c).health == "healthy"  # type: ignore[arg-type]
        ]  # fmt: skip
        fresh = any(action.verb == "relaunch" and not action.path for action in decision.actions)
        return [f"decision {decision.number} starts afresh although {better} stand"] if fresh and better else []

    def tally(self) -> dict[str, int]:
        """What happened on the way."""
        facts = [record.fact for record in journal.read(self.dir.journal).records]
        verbs = [action.verb for fact in facts if isinstance(fact, Decision) for action in fact.actions]
        saves = [fact for fact in facts if isinstance(fact, Checkpoint)]
        return {
            "saved": sum(1 for c in saves if c.state == "saved"),
            "removed": sum(1 for c in saves if c.state == "missing"),
            "rollbacks": verbs.count("rollback"),
            "relaunches": verbs.count("relaunch"),
        }

    def end(self) -> None:
        """Nothing of it lives on."""
        self.end_supervisor()
        for folder in (self.dir.path / "attempts").glob("*"):
            mark = (read_json(folder / "launch.json") or {}).get("env", {}).get(MARK, "-")
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if process.environ().get(MARK) == mark or str(folder) in process.cmdline():
                        process.kill()


def under_fire(folder: Path, files: Path, seed: int, kills: int) -> tuple[list[str], dict[str, int], dict[str, int]]:
    """So many kills in one run: what was wrong, the kills by kind, and what happened on the way."""
    killing = Killing(folder, files, seed)
    found: list[str] = []
    try:
        for _ in range(kills):
            found += killing.kill()
            if found:
                break
    finally:
        killing.end()
    found += killing.look() + killing.fresh_starts()
    return found, killing.kills, killing.tally()


# --- the supervisor's process ----------------------------------------------------------------------------


def _slowly() -> None:
    gone, move = _retention._gone, _pointer._move

    def slow_gone(fs: object, path: str) -> None:
        gone(fs, path)  # type: ignore[arg-type]
        time.sleep(0.004)

    def slow_move(path: Path, aside: Path) -> str:
        time.sleep(0.02)
        return move(path, aside)

    _retention._gone, _pointer._move = slow_gone, slow_move  # type: ignore[assignment]


def main(folder: Path) -> None:
    """Supervise until killed, or held."""
    _slowly()
    run = RunDir(folder / "run")
    config = Config(
        root=folder, run_dir=run.path, job=Job((sys.executable, "-S", str(SAVER), str(folder / "script.json")),
        str(folder)), policy="policy", overrides=(), launcher={"kind": "local"}, telemetry={"kind": "wire"},
        checkpoints={"layout": "dcp", "root": "checkpoints"}, stop_grace=5.0,
    )  # fmt: skip
    loaded = load_text(POLICY, "policy.yaml", None)
    state = Supervisor(config, run, loaded, registry.bind(checked(loaded)), lambda state, fact: None).run()
    print(f"{state.status}: {state.why}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
