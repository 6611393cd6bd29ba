"""How fast `replay` goes through a wire recording, everything included, and what memory it takes.

    python -m tests.bench.review.replay_speed [STEPS]

One core is enough. Each size runs in a process of its own; the peak memory of two sizes tells whether it is flat.
"""

import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from orchestrator.review.replay import replay
from orchestrator.store.policy_text import read


def write(path: Path, steps: int) -> None:
    """A healthy run of so many steps, with one spike in ten thousand."""
    source = random.Random(1)
    head = {"type": "run", "schema": 1, "attempt": 1, "total_steps": steps, "shards_total": 900, "time": 1.7e9}
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(head) + "\n")
        for step in range(1, steps + 1):
            loss = (
                2.2 + 4.0 * math.exp(-step / 2000) + source.gauss(0.0, 0.01) + (3.0 if step % 10_000 == 5_000 else 0.0)
            )
            file.write(
                f'{{"type":"step","step":{step},"time":{1.7e9 + step * 0.5},"loss":{loss:.5f},'
                f'"grad_norm":{1.0 + 0.1 * source.gauss(0.0, 1.0):.4f},"lr":0.0003,"phase":"web","tokens":524288,'
                f'"shards":["web-{step // 100 % 900:05d}"]}}\n'
            )


def one(path: str) -> None:
    """One replay, measured."""
    began, cpu = time.perf_counter(), time.process_time()
    answer = replay(read("pretrain"), [path])["recordings"][0]
    took, spent = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{answer['records']} records in {took:.1f} s, {spent:.1f} s of CPU: {answer['records'] / took:,.0f} a second, "
        f"{answer['records'] / spent:,.0f} a CPU second; {len(answer['incidents'])} incidents; peak {peak:.0f} MiB",
        flush=True,
    )


def main(steps: int = 1_000_000) -> None:
    """Two sizes, so that memory can be compared."""
    with tempfile.TemporaryDirectory() as folder:
        for size in (steps // 10, steps):
            path = Path(folder) / f"{size}.jsonl"
            write(path, size)
            subprocess.run([sys.executable, "-m", "tests.bench.review.replay_speed", "--one", str(path)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        main(*map(int, sys.argv[1:]))
