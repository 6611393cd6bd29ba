"""A whole run of the scripted trainer: laid out in a folder, supervised here or by a process of its own.

`python -m tests.runtime.scripted FOLDER` supervises it as a command would. `--die before|after KIND NUMBER`: and
is killed by SIGKILL around that record of its journal; `--die-at-news`: with the first one that is no step.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from orchestrator import registry
from orchestrator.config import Config, Job, RunDir
from orchestrator.core.facts import Decision, Fact, Step
from orchestrator.core.state import State
from orchestrator.errors import OrchestrateError
from orchestrator.runtime import ending
from orchestrator.runtime.identity import MARK
from orchestrator.runtime.supervisor import Supervisor
from orchestrator.store import journal
from orchestrator.store.policy_text import checked, load_text
from orchestrator.wire import read_json

ROOT = Path(__file__).resolve().parent.parent.parent
TRAINER = Path(__file__).with_name("trainer.py")
POLICY = """\
version: 1
extends: pretrain
checkpoints: {every: 20 steps, healthy_after: 20 steps, margin: 3 steps, after_incident: null}
spikes:
  persistent:
    confirm: {for: 10 steps}
    respond:
      - [rollback, {lr: 50%}, {quarantine: suspect window}, relaunch]
      - [hold]
limits: {quarantine: {max_share: 10%}}
"""


class Run:
    """The folder holds script, policy and the run directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dir = RunDir(folder / "run")

    def lay_out(self, *troubles: dict[str, Any], policy: str = POLICY, command: list[str] | None = None,
                stop_grace: float = 5.0, kind: str = "wire", **script: Any) -> "Run":  # fmt: skip
        """Write everything down, so that any process can supervise it; `kind` is that of its telemetry."""
        whole = {"total": 300, "rate": 400, "every": 20, "troubles": troubles, **script}
        (self.folder / "script.json").write_text(json.dumps(whole))
        (self.folder / "policy.yaml").write_text(policy)
        words = command or ["python", "-S", str(TRAINER), str(self.folder / "script.json")]
        setup = {"command": words, "stop_grace": stop_grace, "kind": kind, "total": whole["total"]}
        (self.folder / "setup.json").write_text(json.dumps(setup))
        self.dir.path.mkdir(exist_ok=True)
        return self

    def supervisor(self, listen: Callable[[State, Fact], None] = lambda state, fact: None) -> Supervisor:
        """A supervisor of this process."""
        setup = read_json(self.folder / "setup.json")
        total = None if setup["kind"] == "wire" else setup["total"]
        job = Job(tuple(setup["command"]), str(self.folder), total_steps=total)
        config = Config(
            root=self.folder, run_dir=self.dir.path, job=job,
            policy="policy", overrides=(), launcher={"kind": "local"}, telemetry={"kind": setup["kind"]},
            checkpoints={"layout": "huggingface", "root": "checkpoints"}, stop_grace=setup["stop_grace"],
        )  # fmt: skip
        text = (self.folder / "policy.yaml").read_text()
        loaded = load_text(text, str(self.folder / "policy.yaml"), None)
        return Supervisor(config, self.dir, loaded, registry.bind(checked(loaded)), listen)

    def supervise(self, listen: Callable[[State, Fact], None] = lambda state, fact: None) -> State:
        """To the run's end, in this process."""
        return self.supervisor(listen).run()

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """A supervisor in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.scripted", str(self.folder), *options],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    # --- what stands in the run directory -------------------------------------------------------------

    def facts(self) -> list[Fact]:
        """The journal's facts; [] before it is there."""
        return [record.fact for record in journal.read(self.dir.journal).records] if self.dir.journal.exists() else []

    def steps(self, attempt: int) -> list[int]:
        """The distinct steps journaled of an attempt, in order."""
        return list(dict.fromkeys(f.step for f in self.facts() if isinstance(f, Step) and f.attempt == attempt))

    def decisions(self) -> list[tuple[Any, ...]]:
        """What was decided, without the times and the step that the news happened to arrive at."""
        return [
            (d.incident, d.mode, *((a.verb, a.to_step, a.path, a.cuts, a.shards) for a in d.actions))
            for d in self.facts()
            if isinstance(d, Decision)
        ]

    def processes(self) -> list[psutil.Process]:
        """Every living process of any attempt, keepers included."""
        found = []
        for folder in (self.dir.path / "attempts").glob("*"):
            mark = (read_json(folder / "launch.json") or {}).get("env", {}).get(MARK, "-")
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    lives = process.status() != psutil.STATUS_ZOMBIE
                    if lives and (process.environ().get(MARK) == mark or str(folder) in process.cmdline()):
                        found.append(process)
        return found

    def wait_for(self, condition: Callable[[], bool], within: float = 30.0) -> None:
        """Until a condition holds."""
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, "the condition never came"
            time.sleep(0.01)

    def clean(self) -> None:
        """End whatever a failed test left."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()


ROUTINE = ("Step", "Supervised", "Announced", "Tick", "Eval")


def news(fact: Fact) -> tuple[Any, ...] | None:
    """What tells a fact that is no routine from every other; the same again after a crash is no news."""
    kind = type(fact).__name__
    names = ("attempt", "number", "action", "path", "state", "verb")
    return None if kind in ROUTINE else (kind, *(getattr(fact, name, None) for name in names))


def _die(log: journal.Journal, options: tuple[str, ...]) -> None:
    """Let this process be killed around a record: `--die before|after KIND NUMBER` or `--die-at-news`."""
    append, seen = log.append, 0
    known = {news(record.fact) for record in log.recovered} | {None}

    def now(fact: Fact) -> bool:
        nonlocal seen
        if options[0] == "--die-at-news":
            return news(fact) not in known
        seen += type(fact).__name__ == options[2]
        return type(fact).__name__ == options[2] and seen == int(options[3])

    def appended(record: journal.Record) -> None:
        due = now(record.fact)
        if due and options[1:2] == ("before",):
            os.kill(os.getpid(), signal.SIGKILL)
        append(record)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)

    log.append = appended  # type: ignore[method-assign]


def main(folder: str, *options: str) -> int:
    """Supervise; the exit code of `orchestrate run`."""
    run = Run(Path(folder))
    try:
        supervisor = run.supervisor()
        if options:
            _die(supervisor._journal, options)
        state = supervisor.run()
    except OrchestrateError as error:
        print(f"orchestrate: {error}")
        return error.exit_code
    ending.write(run.dir, state, 0.0)
    print(f"{state.status}: {state.why}")
    return ending.exit_code(state)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
