"""What the hook costs a step with two gloo ranks, beyond the one collective that it needs.

    PYTHONPATH=. python tests/bench/hook/bench_ranks.py

Blocks of steps are run in turns: the bare all-gather of a row, and `optimizer.step` with `run.step`, which hold one
such all-gather; the optimizer has no gradients, so no norm and no clip is in it. The least of the blocks' medians is
compared: whatever else runs on the machine only ever adds. Collectives are counted too.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import orchestrator
from orchestrator import wire
from orchestrator.training import ranks
from orchestrator.training.ranks import WIDTH
from tests.bench.hook.bench_hook import supervised

BLOCK, ROUNDS = 100, 8


def timed(step: Callable[[int], None], first: int) -> float:
    """The median of one block, in microseconds."""
    took = []
    for number in range(first, first + BLOCK):
        began = time.perf_counter()
        step(number)
        took.append((time.perf_counter() - began) * 1e6)
    return statistics.median(took)


def rank(number: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ |= {wire.RUN_DIR: folder, wire.ATTEMPT: "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611"}
    dist.init_process_group("gloo", rank=number, world_size=2)
    own, rows = torch.zeros(WIDTH, dtype=torch.float64), torch.empty(2 * WIDTH, dtype=torch.float64)
    optimizer = torch.optim.SGD(torch.nn.Linear(8, 8).parameters(), lr=1e-3)
    run = orchestrator.attach(optimizer)
    loss = torch.tensor(2.0)

    def bare(step: int) -> None:
        dist.all_gather_into_tensor(rows, own)

    def hooked(step: int) -> None:
        optimizer.step()
        run.step(step, loss=loss, shards=("web-00012",), phase="web")

    hooked(1)
    least = {"bare": 1e9, "hooked": 1e9}
    for turn in range(ROUNDS):
        for name, step in (("bare", bare), ("hooked", hooked)):
            least[name] = min(least[name], timed(step, turn * BLOCK + 2))
    calls = counted(lambda: hooked(ROUNDS * BLOCK + 2))
    if number == 0:
        found: dict[str, Any] = {f"{name}, us a step": round(value, 1) for name, value in least.items()}
        found["beyond the collective, us a step"] = round(least["hooked"] - least["bare"], 1)
        found["collectives a step"] = calls
        print(json.dumps(found, indent=1))
    dist.destroy_process_group()


def counted(step: Callable[[], None]) -> int:
    """How many collectives one step makes."""
    calls = 0
    own = ranks._gather_rows

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return own(*args, **kwargs)

    ranks._gather_rows = counting
    step()
    ranks._gather_rows = own
    return calls


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        supervised(folder)
        mp.spawn(rank, (folder,), nprocs=2)


if __name__ == "__main__":
    main()
