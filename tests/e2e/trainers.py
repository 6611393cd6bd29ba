"""Real trainers, each under the real supervisor, each with a bad shard and with a rate that is too high.

    PYTHONPATH=. python -m tests.e2e.trainers [JOB ...]

A trainer whose package is missing is named and left out. What a run has to show is checked in `judged`.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CUT, HALF = 0.02, 0.5
POLICY = """\
version: 1
extends: pretrain
clip: {max_norm: 2.0}
checkpoints:
  {every: 20 steps, after_incident: {every: 20 steps, for: 40 steps}, healthy_after: 20 steps, margin: 5 steps}
spikes:
  persistent:
    confirm: {for: 8 steps}
    respond:
      - [rollback, {lr: CUT}, {quarantine: suspect window}, relaunch]
      - [hold]
limits: {lr_floor: 0.1%, quarantine: {max_share: 20%}}
failures: {hang: {after: 60s}}
"""


@dataclass(frozen=True)
class Job:
    """One trainer: its module, its arguments, the package it needs, and how it is watched."""

    module: str
    package: str = "torch"
    arguments: tuple[str, ...] = ()
    layout: str = "dcp"
    ranks: int = 1
    faults: tuple[str, ...] = ("shard", "rate")


JOBS = {
    "torch": Job("plain"),
    "ddp": Job("plain", ranks=2),
    "hf-constant": Job("hf", "transformers", ("--scheduler=constant",), "huggingface"),
    "hf-linear": Job("hf", "transformers", ("--scheduler=linear",), "huggingface"),
    "hf-cosine": Job("hf", "transformers", ("--scheduler=cosine", "--accumulate=2"), "huggingface"),
    "lightning": Job("lit", "lightning", (), "lightning"),
    "accelerate": Job("accel", "accelerate"),
    "deepspeed": Job("ds", "deepspeed", (), "deepspeed"),
    "untouched": Job("nano", layout="torchfile", faults=("rate",)),
}


@dataclass
class Seen:
    """What a run left: its exit, its decisions' actions, and the records of each attempt by step."""

    exit: dict[str, Any]
    status: dict[str, Any] = field(default_factory=dict)
    attempts: list[dict[int, dict[str, Any]]] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    output: str = ""


def configured(folder: Path, job: Job, fault: str) -> Path:
    """The run's configuration, written into `folder`."""
    if job.module == "nano":
        return _written(folder, untouched(folder))
    output = ["--output={run_dir}/checkpoints"] if job.module == "hf" else []
    words = ["-m", f"tests.e2e.trainers_jobs.{job.module}", f"--fault={fault}", *job.arguments, *output]
    launcher = {"kind": "torchrun", "ranks": job.ranks} if job.ranks > 1 else {"kind": "local"}
    values = {
        "policy": str(folder / "policy.yaml"),
        "run": {"dir": str(folder / "run")},
        "launcher": launcher,
        "job": {
            "command": words if job.ranks > 1 else ["python", *words], "cwd": str(ROOT),
            "env": {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "TOKENIZERS_PARALLELISM": "false"},
        },
        "checkpoints": {"layout": job.layout, "root": "checkpoints"},
        "stop": {"grace": 20},
    }  # fmt: skip
    return _written(folder, values)


def untouched(folder: Path) -> dict[str, Any]:
    """The configuration of a script that is not changed by one line: its log is read, its arguments are its levers."""
    script = str(ROOT / "tests/e2e/trainers_jobs/nano.py")
    return {
        "policy": str(folder / "policy.yaml"),
        "run": {"dir": str(folder / "run")},
        "job": {
            "command": ["python", script, "--out_dir={run_dir}/checkpoints", "--learning_rate={lr}"],
            "resume": ["--init_from=resume"],
            "lr": 0.1,
            "total_steps": 300,
            "cwd": str(folder),
        },
        "telemetry": {"kind": "nanogpt"},
        "checkpoints": {"layout": "torchfile", "root": "checkpoints"},
    }


def _written(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "run.yaml"
    path.write_text(json.dumps(values))  # JSON is YAML
    return path


def cut_of(job: Job) -> float:
    return HALF if job.module == "nano" else CUT


def supervised(folder: Path, job: Job, fault: str, timeout: float = 240.0) -> Seen:
    """Run a job under the supervisor to its end."""
    conf = configured(folder, job, fault)
    (folder / "policy.yaml").write_text(POLICY.replace("{lr: CUT}", f"{{lr: {100 * cut_of(job):g}%}}"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATE_")}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "orchestrator.cli", "run", f"conf={conf}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, timeout=timeout, capture_output=True, text=True)
    return seen(folder / "run", done.stdout + done.stderr)


def seen(run: Path, output: str) -> Seen:
    """Read a run directory."""
    if not (run / "exit.json").exists():
        return Seen({}, output=output)
    found = Seen(json.loads((run / "exit.json").read_text()), output=output)
    told = [sys.executable, "-m", "orchestrator.cli", "status", str(run), "--json"]
    found.status = json.loads(subprocess.run(told, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout)
    for attempt in sorted((run / "attempts").iterdir()):
        found.attempts.append(_steps(attempt / "telemetry.jsonl"))
        found.commands.append(json.loads((attempt / "launch.json").read_text())["command"])
    return found


def _steps(path: Path) -> dict[int, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []
    return {line["step"]: line for line in lines if line["type"] == "step"}


def judged(found: Seen) -> list[str]:
    """What is not as it must be; empty when the run was saved by the policy as it should be."""
    wrong = _ending(found)
    if not wrong and not any(found.attempts):
        return _by_arguments(found)
    before, after = (*found.attempts, {}, {})[:2]
    common = sorted(before.keys() & after.keys())
    if len(common) < 5:
        wrong.append(f"only steps {common} were trained twice")
    for step in common:
        wanted, got = before[step]["lr"] * CUT, after[step]["lr"]
        if abs(got - wanted) > 1e-6 * wanted:
            wrong.append(f"step {step}: rate {got!r}, ordered {wanted!r}")
    return wrong


def _by_arguments(found: Seen) -> list[str]:
    """A trainer whose log tells no rate: the archived checkpoint, the argument, and an outcome that admits it."""
    wrong = []
    for command, rate, resumed in zip(found.commands, ("0.1", f"{0.1 * HALF:.12g}"), (False, True), strict=True):
        if f"--learning_rate={rate}" not in command or ("--init_from=resume" in command) != resumed:
            wrong.append(f"launched as {command}")
    actions = {action["verb"]: action for incident in found.status["incidents"] for action in incident["actions"]}
    if not actions["relaunch"]["args"]["to_step"]:
        wrong.append("went back to the start, not to an archived checkpoint")
    if actions["lr"]["outcome"] != "unverifiable":
        wrong.append(f"the cut's outcome is {actions['lr']}")
    return wrong


def _ending(found: Seen) -> list[str]:
    wrong = []
    if found.exit.get("state") != "completed" or found.exit.get("code") != 0:
        wrong.append(f"ended as {found.exit}: {found.output[-2000:]}")
    if len(found.attempts) != 2:
        wrong.append(f"{len(found.attempts)} attempts, wanted one relaunch: {found.output[-2000:]}")
    return wrong


def main() -> None:
    names = sys.argv[1:] or list(JOBS)
    failed = False
    for name in names:
        job = JOBS[name]
        if find_spec(job.package) is None:
            print(f"{name}: left out, {job.package} is not installed")
            continue
        for fault in job.faults:
            with tempfile.TemporaryDirectory() as folder:
                wrong = judged(supervised(Path(folder), job, fault))
            failed = failed or bool(wrong)
            print(f"{name}, {fault}: {'; '.join(wrong) or 'saved'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
