"""Our own row: `orchestrate replay` over generated runs, in this process or as the command."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import generator
from labels import Run

COMMAND = "import sys; from orchestrator.cli import main; sys.exit(main())"
Replay = Callable[[Path, Sequence[Path]], dict[str, Any]]


def in_process() -> Replay:
    """`replay(policy, recordings)` of the package itself; ModuleNotFoundError where it is not there."""
    replay = import_module("orchestrator.review.replay").replay
    text = import_module("orchestrator.store.policy_text")
    return lambda policy, recordings: replay(text.read(str(policy)), list(map(str, recordings)))


def by_command(policy: Path, recordings: Sequence[Path]) -> dict[str, Any]:
    """The same through the command line; RuntimeError with its last words when it fails."""
    command = [sys.executable, "-c", COMMAND, "replay", str(policy), *map(str, recordings), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-500:] or f"replay ended with {done.returncode}")
    out: dict[str, Any] = json.loads(done.stdout)
    return out


def recordings(replay: Replay, policy: Path, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One recording's result for each run, in their order."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k:04d}-{run.name}.jsonl" for k, run in enumerate(runs)]
        for run, path in zip(runs, paths, strict=True):
            generator.write(run, path)
        out: list[dict[str, Any]] = replay(policy, paths)["recordings"]
    return out
