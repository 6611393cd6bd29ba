"""Does taking digests delay the trainer? `python tests/bench/checkpoints/hash_beside_training.py [GIB]`.

A supervisor's storage thread, in a process of its own, takes the digests of a checkpoint over and over while this
process trains: steps of a matrix product, timed one by one. Rounds with and without hashing alternate, so that
whatever else the machine does falls on both alike.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROUNDS, STEPS = 8, 200
HASHER = """
import os, sys, threading
from orchestrator.checkpoints._digest import write_digests
import fsspec
os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)
while True:
    write_digests(fsspec.filesystem("file"), sys.argv[1])
"""


def steps(number: int) -> list[float]:
    """Milliseconds of so many steps."""
    one = np.ones((400, 400), dtype=np.float32)
    times = []
    for _ in range(number):
        began = time.perf_counter()
        for _ in range(4):
            one @ one
        times.append(1e3 * (time.perf_counter() - began))
    return times


def main(gib: float) -> None:
    """Print the medians and the 99th percentiles."""
    found: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as name:
        for part in range(4):
            (Path(name) / f"__{part}_0.distcp").write_bytes(os.urandom(1 << 20) * int(256 * gib))
        began = time.perf_counter()
        steps(STEPS)
        for number in range(2 * ROUNDS):
            hashing = number % 2 == 1
            hasher = subprocess.Popen([sys.executable, "-c", HASHER, name]) if hashing else None
            time.sleep(1.0)
            found[hashing] += steps(STEPS)
            if hasher is not None:
                hasher.kill()
                hasher.wait()
    told = {
        ("hashing" if hashing else "without"): {
            "median_ms": round(statistics.median(times), 3),
            "p99_ms": round(statistics.quantiles(times, n=100)[98], 3),
        }
        for hashing, times in found.items()
    }
    ratio = statistics.median(found[True]) / statistics.median(found[False])
    print(json.dumps({**told, "median_ratio": round(ratio, 4), "seconds": round(time.perf_counter() - began, 1)}))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.5)
