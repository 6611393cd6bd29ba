"""Kill trainer and supervisor at random moments of saving, retention and rollback: `... [kills] [first seed]`.

`python -m tests.bench.checkpoints.kill_checkpoints 300`. Each run takes 20 kills. After every kill of a supervisor
each checkpoint that counts as healthy is looked at, and every attempt looks at what it is told to load.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.runtime.killing import template, under_fire

A_RUN = 20


def main(kills: int, seed: int) -> int:
    """Print a line a run and the sums; 1 when anything was wrong."""
    kinds: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    wrong: list[str] = []
    began = time.monotonic()
    for number in range(-(-kills // A_RUN)):
        with tempfile.TemporaryDirectory(prefix="orchestrate-kills-") as name:
            (folder := Path(name) / "run").mkdir()
            found, killed, tally = under_fire(folder, template(Path(name) / "template"), seed + number, A_RUN)
        kinds.update(killed)
        happened.update(tally)
        wrong += [f"seed {seed + number}: {each}" for each in found]
        print(f"seed {seed + number}: {sum(killed.values())} kills, {tally}, wrong: {found or 'nothing'}", flush=True)
    told = {
        "kills": sum(kinds.values()), "by kind": dict(kinds), "happened": dict(happened), "wrong": wrong,
        "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip
    print(json.dumps(told, indent=2))
    return 1 if wrong else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(main(numbers[0] if numbers else 300, numbers[1] if len(numbers) > 1 else 1))
