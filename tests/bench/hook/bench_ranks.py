"""What the hook costs a step with two gloo ranks, beyond a collective a step.

    PYTHONPATH=. python tests/bench/hook/bench_ranks.py

Blocks of steps of a tiny model under DDP are run in turns, each rank on a core of its own: without us, with torch's
own norm and clip and the bare all-gather of a row; and with us, who do the same. A collective alone in a loop would be
no measure: how long a rank waits in it depends on what the ranks did before. The medians of the blocks are compared
by pairs. That is blurred by how the ranks wait for each other, so the time within the hook's calls is taken too, less
what of it passed in the collective, the norm and the clip. Collectives of ours are counted.
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

from orchestrator import wire
from orchestrator.training import guard, link
from orchestrator.training.live import Live
from orchestrator.training.ranks import WIDTH
from tests.bench.hook.bench_hook import hooked, supervised

BLOCK, ROUNDS = 100, 40


def block(step: Callable[[int], None], first: int) -> float:
    """Microseconds a step."""
    dist.barrier()
    began = time.perf_counter()
    for number in range(first, first + BLOCK):
        step(number)
    return (time.perf_counter() - began) / BLOCK * 1e6


def parts() -> tuple[torch.nn.Module, torch.optim.Optimizer, torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1))
    )
    return model, torch.optim.SGD(model.parameters(), lr=1e-3), torch.randn(64, 64)


def bare() -> Callable[[int], None]:
    own, rows = torch.zeros(WIDTH, dtype=torch.float64), torch.empty(2 * WIDTH, dtype=torch.float64)
    model, optimizer, data = parts()

    def step(number: int) -> None:
        loss = model(data).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        link._gather(rows, own)

    return step


def rank(number: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ |= {wire.RUN_DIR: folder, wire.ATTEMPT: "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611"}
    dist.init_process_group("gloo", rank=number, world_size=2)
    ours = parts()
    loops = {"bare": bare(), "hooked": hooked(*ours)}
    took: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(ROUNDS):
        for name, step in loops.items():
            took[name].append(block(step, turn * BLOCK + 1))
    calls = counted(loops["hooked"], ROUNDS * BLOCK + 1)
    within = inside(loops["hooked"], ours[1], (ROUNDS + 1) * BLOCK + 1)
    dist.barrier()
    if number == 0:
        found: dict[str, Any] = {f"{name}, us a step": round(statistics.median(v), 1) for name, v in took.items()}
        beyond = [ours - theirs for ours, theirs in zip(took["hooked"], took["bare"], strict=True)]
        found["beyond the collective, us a step"] = round(statistics.median(beyond), 1)
        found["in the hook's calls, collective, norm and clip apart, us a step"] = round(within, 1)
        found["collectives a step"] = calls
        print(json.dumps(found, indent=1))
    dist.destroy_process_group()


def inside(step: Callable[[int], None], optimizer: torch.optim.Optimizer, first: int) -> float:
    """The median of the microseconds spent in the hook itself."""
    spent = 0.0

    def timed(own: Callable[..., Any], sign: float) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal spent
            began = time.perf_counter()
            result = own(*args, **kwargs)
            spent += sign * (time.perf_counter() - began)
            return result

        return call

    for hooks in (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks):
        for key, own in hooks.items():
            hooks[key] = timed(own, 1.0)
    Live.step = timed(Live.step, 1.0)  # type: ignore[method-assign]
    link._gather = timed(link._gather, -1.0)
    guard._norm_of, guard._shrink = timed(guard._norm_of, -1.0), timed(guard._shrink, -1.0)
    took = []
    for number in range(first, first + ROUNDS * BLOCK):
        spent = 0.0
        step(number)
        took.append(spent * 1e6)
    return statistics.median(took)


def counted(step: Callable[[int], None], first: int) -> float:
    """How many collectives a step makes: quick steps share one."""
    calls = 0
    own = link._gather

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return own(*args, **kwargs)

    link._gather = counting
    for number in range(first, first + BLOCK):
        step(number)
    link._gather = own
    return calls / BLOCK


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        supervised(folder)
        mp.spawn(rank, (folder,), nprocs=2)


if __name__ == "__main__":
    main()
