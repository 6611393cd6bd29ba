"""torchrun on this host: fan-out and rendezvous are its work, restarts are the policy's (`--max-restarts=0`)."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any


def command(words: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """`words` are a script and its arguments; `ranks` processes are started on a free port.

    >>> command(["train.py"], {"ranks": 2})[-3:]
    ['--nproc-per-node=2', '--max-restarts=0', 'train.py']
    """
    ranks = int(options.get("ranks", 1))
    return [
        str(options.get("python") or sys.executable), "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={ranks}", "--max-restarts=0", *words,
    ]  # fmt: skip
