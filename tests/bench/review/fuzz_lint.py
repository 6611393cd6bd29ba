"""Forty thousand mutated policies: lint never raises, never accepts what the loader refuses, never hangs.

python -m tests.bench.review.fuzz_lint [COUNT] [SEED]
"""

import sys
import time

from tests.bench.review.mutations import checked, some


def main(count: int = 40_000, seed: int = 1) -> None:
    """Every text is checked; the slowest one is told."""
    accepted, slowest, began = 0, (0.0, ""), time.perf_counter()
    for number, text in enumerate(some(count, seed), 1):
        start = time.process_time()
        try:
            accepted += checked(text)
        except BaseException:
            print(f"text {number} of seed {seed}:\n{text!r}", flush=True)
            raise
        slowest = max(slowest, (time.process_time() - start, text))
    took = time.perf_counter() - began
    print(f"{count} texts in {took:.0f} s, {accepted} accepted; the slowest took {1000 * slowest[0]:.0f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
