"""Inside a Slurm allocation: srun starts one torchrun agent a node, which meet by c10d on the batch host.

Fan-out and rendezvous are torchrun's, restarts are the policy's (`--max-restarts=0`): a relaunch is a new step
inside the same allocation, which costs seconds where a requeue costs minutes. Everything of a step ends with srun.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

TIMEOUT = 20.0  # seconds that Slurm's controller has for an answer
_CONTROL = {"timeout": TIMEOUT, "capture_output": True, "text": True, "check": True}


def command(words: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """`words` are a script and its arguments; `ranks` processes run on each of the allocation's nodes.

    >>> words = command(["train.py"], {"ranks": 2, "nodes": 3, "attempt": 1, "exclude": ["n2"], "port": 29400})
    >>> words[:3]
    ['srun', '--nodes=2', '--ntasks=2']
    >>> [word for word in words if word.startswith(("--exclude", "--nnodes"))]
    ['--exclude=n2', '--nnodes=2']
    """
    left_out = list(options.get("exclude", ()))
    nodes = int(options.get("nodes") or os.environ.get("SLURM_JOB_NUM_NODES") or 1) - len(left_out)
    port = int(options.get("port") or _free_port())
    host = str(options.get("host") or socket.gethostname())
    name = f"{os.environ.get('SLURM_JOB_ID', 'none')}-{options['attempt']}"
    return [
        "srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1",
        *([f"--exclude={','.join(left_out)}"] if left_out else []), *map(str, options.get("srun", ())),
        str(options.get("python") or sys.executable), "-m", "torch.distributed.run",
        f"--nnodes={nodes}", f"--nproc-per-node={int(options.get('ranks', 1))}", "--rdzv-backend=c10d",
        f"--rdzv-endpoint={host}:{port}", f"--rdzv-id={name}", "--max-restarts=0", *words,
    ]  # fmt: skip


def _free_port() -> int:
    """A port that is free on this host now; one taken in between is an environmental failure, tried again."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def place() -> tuple[tuple[str, str], ...]:
    """The job's number, how often it was started anew, its nodes and the end of its time."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return ()
    known = [
        ("scheduler", "slurm"), ("job", job), ("restarts", os.environ.get("SLURM_RESTART_COUNT", "0")),
        ("nodes", os.environ.get("SLURM_JOB_NODELIST", "")),
    ]  # fmt: skip
    end = re.search(r"EndTime=(\S+)", _said("scontrol", "show", "job", job))
    return (*known, ("ends", end[1])) if end else tuple(known)


def requeue() -> str:
    """Ask Slurm to start the whole job once more; what went wrong, "" when nothing did."""
    try:
        subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], **_CONTROL)
    except (OSError, subprocess.SubprocessError, KeyError) as error:
        return str(getattr(error, "stderr", "") or error).strip()
    return ""


def _said(*words: str) -> str:
    try:
        return str(subprocess.run(words, **_CONTROL).stdout)
    except (OSError, subprocess.SubprocessError):
        return ""
