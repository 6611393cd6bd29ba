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
CUT = 0.05
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
      - [rollback, {lr: 5%}, {quarantine: suspect window}, relaunch]
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


JOBS = {
    "torch": Job("plain"),
    "ddp": Job("plain", ranks=2),
    "hf-constant": Job("hf", "transformers", ("--scheduler=constant",), "huggingface"),
    "hf-linear": Job("hf", "transformers", ("--scheduler=linear",), "huggingface"),
    "hf-cosine": Job("hf", "transformers", ("--scheduler=cosine", "--accumulate=2"), "huggingface"),
    "lightning": Job("lit", "lightning", (), "lightning"),
    "accelerate": Job("accel", "accelerate"),
    "deepspeed": Job("ds", "deepspeed", (), "deepspeed"),
}


@dataclass
class Seen:
    """What a run left: its exit, its decisions' actions, and the records of each attempt by step."""

    exit: dict[str, Any]
    actions: list[dict[str, Any]] = field(default_factory=list)
    attempts: list[dict[int, dict[str, Any]]] = field(default_factory=list)
    output: str = ""


def configured(folder: Path, job: Job, fault: str) -> Path:
    """The run's configuration and policy, written into `folder`."""
    (folder / "policy.yaml").write_text(POLICY)
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
    path = folder / "run.yaml"
    path.write_text(json.dumps(values))  # JSON is YAML
    return path


def supervised(folder: Path, job: Job, fault: str, timeout: float = 240.0) -> Seen:
    """Run a job under the supervisor to its end."""
    conf = configured(folder, job, fault)
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
    for line in (run / "journal.jsonl").read_text().splitlines():
        found.actions += _actions(line)
    for attempt in sorted((run / "attempts").iterdir()):
        found.attempts.append(_steps(attempt / "telemetry.jsonl"))
    return found


def _actions(line: str) -> list[dict[str, Any]]:
    body = json.loads(line)
    decision = body.get("Decision") or (body if body.get("fact") == "Decision" else {})
    return list(decision.get("actions", ()))


def _steps(path: Path) -> dict[int, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []
    return {line["step"]: line for line in lines if line["type"] == "step"}


def judged(found: Seen) -> list[str]:
    """What is not as it must be; empty when the run was saved by the policy as it should be."""
    wrong = []
    if found.exit.get("state") != "completed" or found.exit.get("code") != 0:
        wrong.append(f"ended as {found.exit}: {found.output[-2000:]}")
    if len(found.attempts) != 2:
        return [*wrong, f"{len(found.attempts)} attempts, wanted one relaunch: {found.output[-2000:]}"]
    before, after = found.attempts
    common = sorted(before.keys() & after.keys())
    if len(common) < 5:
        wrong.append(f"only steps {common} were trained twice")
    for step in common:
        wanted, got = before[step]["lr"] * CUT, after[step]["lr"]
        if abs(got - wanted) > 1e-6 * wanted:
            wrong.append(f"step {step}: rate {got!r}, ordered {wanted!r}")
    return wrong


def main() -> None:
    names = sys.argv[1:] or list(JOBS)
    failed = False
    for name in names:
        job = JOBS[name]
        if find_spec(job.package) is None:
            print(f"{name}: left out, {job.package} is not installed")
            continue
        for fault in ("shard", "rate"):
            with tempfile.TemporaryDirectory() as folder:
                wrong = judged(supervised(Path(folder), job, fault))
            failed = failed or bool(wrong)
            print(f"{name}, {fault}: {'; '.join(wrong) or 'saved'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
