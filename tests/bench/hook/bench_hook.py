"""What the hook costs a step, in one process on a CPU: bare loop against hooked loop.

    PYTHONPATH=. python tests/bench/hook/bench_hook.py

Loops of a tiny model are run in turns, a block of steps each: bare; bare with torch's own `clip_grad_norm_`, which a
loop that is not ours calls; bare with our norm and clip, which are cheaper; hooked, which does those too. The
difference to each of the last two is told, with what the code does to the processor's caches between tensor
operations: of a block's median step, and of its mean step, which holds the writing that a few steps do for all. The
same calls without a model between them (an optimizer without gradients) tell the code's own time. The summary of the
losses of 16,384 ranks is timed too.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import torch

import orchestrator
from orchestrator import wire
from orchestrator.core.policy import Clip, Decay, Phase, Policy, Schedule, Warmup
from orchestrator.core.schedule import plan_of
from orchestrator.training import guard
from orchestrator.training.ranks import block

BLOCK, ROUNDS = 200, 150
Step = Callable[[int], None]


def parts() -> tuple[torch.nn.Module, torch.optim.Optimizer, torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=1e-3), torch.randn(4, 8)


def bare() -> Step:
    model, optimizer, data = parts()

    def step(number: int) -> None:
        loss = model(data).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def torchs(parameters: list[torch.nn.Parameter]) -> None:
    torch.nn.utils.clip_grad_norm_(parameters, 1e-3)


def ours(parameters: list[torch.nn.Parameter]) -> None:
    norm = guard._norm_of([p.grad for p in parameters])
    if norm.item() > 0.0:  # the hook clips only where the limit is passed; here it always is
        guard._shrink(parameters, 1e-3, norm)


def clipped(clip: Callable[[list[torch.nn.Parameter]], None]) -> Step:
    model, optimizer, data = parts()

    def step(number: int) -> None:
        loss = model(data).pow(2).mean()
        loss.backward()
        clip([p for group in optimizer.param_groups for p in group["params"] if p.grad is not None])
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step


def hooked(model: torch.nn.Module, optimizer: torch.optim.Optimizer, data: torch.Tensor) -> Step:
    """The loop with us in it."""
    run = orchestrator.attach(optimizer, model=model)

    def step(number: int) -> None:
        loss = model(data).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.step(number, loss=loss, shards=["web-00012"], phase="web")

    return step


def without_model(hook: bool) -> Step:
    _, optimizer, _ = parts()
    run = orchestrator.attach(optimizer) if hook else None
    loss = torch.tensor(2.0)

    def step(number: int) -> None:
        optimizer.step()
        if run is not None:
            run.step(number, loss=loss, shards=["web-00012"], phase="web")

    return step


def supervised(folder: str) -> None:
    """A run directory with all that a step may have to follow: schedule, phases, clip, a cut."""
    os.environ |= {wire.RUN_DIR: folder, wire.ATTEMPT: "1"}
    attempt = wire.attempt_dir(folder, 1)
    attempt.mkdir(parents=True)
    schedule = Schedule(peak=1e-3, warmup=Warmup(for_=100), decay=Decay(until=100_000))
    policy = Policy(schedule=schedule, phases={"web": Phase(until=10**6), "code": Phase()}, clip=Clip(max_norm=1e-3))
    wire.write_json(attempt / wire.PLAN, plan_of(policy))
    cut = [0.5, 100, 2000, 1000]
    wire.write_json(attempt / wire.DIRECTIVE, {"epoch": 1, "attempt": 1, "cuts": [cut]})


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        supervised(folder)
        loops = {"bare": bare(), "torch's norm and clip": clipped(torchs), "our norm and clip": clipped(ours)}
        loops["hooked"] = hooked(*parts())
        loops |= {"no model, bare": without_model(False), "no model, hooked": without_model(True)}
        took: dict[str, list[list[float]]] = {name: [] for name in loops}
        for turn in range(ROUNDS):
            for name, step in loops.items():
                took[name].append(timed(step, turn * BLOCK + 1))
    found: dict[str, float] = {}
    for kind, of in (("median", statistics.median), ("mean", statistics.fmean)):
        steps = {name: [of(block) for block in blocks] for name, blocks in took.items()}
        found |= {f"{name}, us of a {kind} step": round(statistics.median(v), 2) for name, v in steps.items()}
        for name in ("torch's norm and clip", "our norm and clip"):
            found[f"hooked beyond {name}, us of a {kind} step"] = paired(steps["hooked"], steps[name])
        calls = paired(steps["no model, hooked"], steps["no model, bare"])
        found[f"the same without a model, us of a {kind} step"] = calls
    found["summary of 16,384 ranks, us"] = round(summary(), 1)
    print(json.dumps(found, indent=1))


def timed(step: Step, first: int) -> list[float]:
    """The microseconds of each step of a block."""
    took = []
    for number in range(first, first + BLOCK):
        began = time.perf_counter()
        step(number)
        took.append((time.perf_counter() - began) * 1e6)
    return took


def paired(ours: list[float], theirs: list[float]) -> float:
    """The median of the differences within a turn."""
    return round(statistics.median(o - t for o, t in zip(ours, theirs, strict=True)), 2)


def summary() -> float:
    losses = torch.randn(16_384, dtype=torch.float64).mul_(0.01).add_(2.3)
    losses[317] = 9.1
    given = torch.ones(len(losses), dtype=torch.bool)
    took = []
    for _ in range(200):
        began = time.perf_counter()
        block(losses, given)
        took.append((time.perf_counter() - began) * 1e6)
    return statistics.median(took)


if __name__ == "__main__":
    main()
