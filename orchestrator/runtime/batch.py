"""The batch script that puts a run on Slurm: a text to read before it is submitted.

The shell becomes the supervisor (`exec`), so that Slurm records its exit code and its signals reach it alone;
the log is appended to, for a requeued job goes on in it.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.config import Config


def script(config: Config, arguments: Sequence[str]) -> str:
    """The whole script of `orchestrate run` with these arguments."""
    launcher = config.launcher
    options = [
        f"--job-name={config.run_dir.name}",
        f"--nodes={int(launcher.get('nodes', 1))}",
        "--ntasks-per-node=1",
        f"--time={launcher.get('time', '1:00:00')}",
        f"--signal=B:USR1@{int(launcher.get('notice', 120))}",
        "--requeue",
        "--open-mode=append",
        f"--output={config.run_dir}/slurm-%j.log",
        f"--chdir={Path.cwd()}",
        *map(str, launcher.get("sbatch", ())),
    ]
    words = [sys.executable, "-m", "orchestrator.cli", "run", *arguments]
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), "", f"exec {shlex.join(words)}"]
    return "\n".join(lines) + "\n"
