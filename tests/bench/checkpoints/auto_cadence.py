"""How good is `every: auto`? Runs that fail at random, against the best fixed cadence found afterwards.

`python tests/bench/checkpoints/auto_cadence.py [--json]`. A run needs WORK seconds of training; failures come as a
Poisson process with a mean time between them that the cadence does not know (it begins with the prior of one a
day); each costs a restart and whatever was trained since the last save. The best fixed interval is searched on
a fine grid over the very same failures, so it knows the future. Both see the same failure times.
"""

import json
import random
import statistics
import sys
from collections.abc import Callable

from orchestrator.core.interval import mtbf
from orchestrator.core.schedule import daly

RUNS = 20
GRID = [20.0 * 1.1**power for power in range(80)]
CASES = (  # hours between failures, seconds a save, seconds a restart, days of training
    (0.5, 5.0, 60.0, 2.0),
    (1.0, 30.0, 120.0, 3.0),
    (3.0, 60.0, 300.0, 7.0),
    (6.0, 10.0, 120.0, 7.0),
    (6.0, 180.0, 600.0, 14.0),
    (24.0, 60.0, 300.0, 21.0),
    (24.0, 600.0, 600.0, 21.0),
    (96.0, 120.0, 300.0, 30.0),
)


def elapsed(
    work: float, cost: float, restart: float, failures: list[float], every: Callable[[int, float], float]
) -> float:
    """Wall-clock seconds until `work` seconds of training are saved; `every` is asked (failures, seconds ran)."""
    now = done = ran = 0.0
    number = 0
    while done < work:
        stretch = min(every(number, ran), work - done)
        end = now + stretch + cost
        if failures[number] < end:
            ran += max(failures[number] - now, 0.0)
            now = max(failures[number], now) + restart
            number += 1
            continue
        ran += stretch + cost
        now, done = end, done + stretch
    return now


def strikes(mean: float, until: float, seed: int) -> list[float]:
    """Failure times, far enough ahead."""
    source, times, now = random.Random(seed), [], 0.0
    while now < until:
        now += source.expovariate(1.0 / mean)
        times.append(now)
    return [*times, float("inf")]


def one(hours: float, cost: float, restart: float, days: float) -> dict[str, float]:
    """Mean elapsed seconds of `auto` and of the best fixed interval over RUNS failure processes."""
    work = days * 86400.0
    failures = [strikes(hours * 3600.0, 20.0 * work, seed) for seed in range(RUNS)]

    def mean(every: Callable[[int, float], float]) -> float:
        return statistics.fmean(elapsed(work, cost, restart, each, every) for each in failures)

    auto = mean(lambda number, ran: daly(cost, mtbf(number, ran)))
    fixed = {every: mean(lambda number, ran, every=every: every) for every in GRID if every < 12 * hours * 3600.0}  # type: ignore[misc]
    best = min(fixed, key=fixed.__getitem__)
    return {
        "mtbf_h": hours, "save_s": cost, "days": days, "auto_days": auto / 86400.0, "best_days": fixed[best] / 86400.0,
        "best_every_s": best, "daly_every_s": daly(cost, hours * 3600.0), "ratio": auto / fixed[best],
        "waste_ratio": (auto - work) / (fixed[best] - work),
    }  # fmt: skip


def main() -> int:
    """Print the table; 1 when `auto` takes more than 1.1 times the best anywhere."""
    found = [one(*case) for case in CASES]
    if "--json" in sys.argv:
        print(json.dumps(found, indent=2))
    else:
        print("MTBF h  save s  days   auto d  best d  best every s  Daly's s   auto/best  overhead auto/best")
        for f in found:
            told = (f["mtbf_h"], f["save_s"], f["days"], f["auto_days"], f["best_days"], f["best_every_s"])
            form = "{:6.1f} {:7.0f} {:5.0f} {:8.3f} {:7.3f} {:13.0f} {:9.0f} {:11.4f} {:19.3f}"
            print(form.format(*told, f["daly_every_s"], f["ratio"], f["waste_ratio"]))
    return 1 if max(f["ratio"] for f in found) > 1.1 else 0


if __name__ == "__main__":
    sys.exit(main())
