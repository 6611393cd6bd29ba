"""torchrun on several hosts without a scheduler that would start it: the same `orchestrate run` on every host.

Host 0 supervises; every other one follows: it starts its own torchrun with the very words that host 0 wrote for the
attempt, and they meet by c10d on host 0. The run directory is on a file system that all of them see.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any


def command(words: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """`words` are a script and its arguments; `ranks` processes run on each of `nodes` hosts.

    >>> command(["train.py"], {"nodes": 2, "ranks": 8, "host": "pod-0.svc", "port": 29400, "attempt": 3})[3:6]
    ['--nnodes=2', '--nproc-per-node=8', '--rdzv-backend=c10d']
    """
    endpoint = f"{options.get('host', 'localhost')}:{int(options.get('port', 29400))}"
    return [
        str(options.get("python") or sys.executable), "-m", "torch.distributed.run",
        f"--nnodes={int(options.get('nodes', 1))}", f"--nproc-per-node={int(options.get('ranks', 1))}",
        "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", f"--rdzv-id=attempt-{options['attempt']}",
        "--max-restarts=0", *words,
    ]  # fmt: skip


def follows(options: Mapping[str, Any]) -> int:
    """The number of this host where it follows host 0; 0 on the host that supervises."""
    return int(options.get("index") or 0)
