"""The trainer of the test with two ranks; rank 0 plays the supervisor too, by writing the directive.

argv: the folder for results. Each rank leaves what it saw in rank<N>.json there.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import orchestrator
from orchestrator import wire
from orchestrator.training import inbox, link, team
from orchestrator.training.stream import HOLD_SECONDS


def direct(**levels: object) -> None:
    folder = wire.attempt_dir(os.environ[wire.RUN_DIR], int(os.environ[wire.ATTEMPT]))
    attempt = int(os.environ[wire.ATTEMPT])
    wire.write_json(folder / wire.DIRECTIVE, {"epoch": 1, "attempt": attempt, **levels})


def weights(model: torch.nn.Module) -> list[float]:
    return [value for p in model.parameters() for value in p.detach().flatten().tolist()]


def replicated(rank: int) -> dict[str, object]:
    """Thirty steps at most: a cut and a save asked for at 5, a NaN on rank 1 at 8, a last save and stop at 12."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    run = orchestrator.attach(optimizer, model=model)
    state = {"model": model, "optimizer": optimizer}
    start = run.restore(state)
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(rank))
    saved, frozen, last = [], {}, start
    for step, _ in run.steps([0], start=start, total=30):
        last = step
        if rank == 0 and step in (5, 12):
            direct(cuts=[[0.5, 0, None, None]], save=1, stop="save" if step == 12 else "")
        optimizer.zero_grad()
        loss = replica(data).pow(2).mean()
        loss.backward()
        if rank == 1 and step == 8:
            loss = loss * float("nan")
        if step == 8:
            model.weight.grad[0, 0] = float("nan")
            frozen["before"] = weights(model)
        optimizer.step()
        if step == 8:
            frozen["after"] = weights(model)
        run.step(step, loss=loss, shards=["both", f"of-{rank}-{step // 10}"])
        if run.checkpoint_due:
            run.save(step, state)
            saved.append(step)
        if run.stop_requested:
            break
    return {"saved": saved, "last": last, "start": start, "weights": weights(model), "frozen": frozen}


def sharded(rank: int) -> dict[str, object]:
    """Weights cut over both ranks: one norm, one verdict, and a checkpoint that comes back as it was cut."""
    os.environ[wire.ATTEMPT] = "2"
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 2))
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    run = orchestrator.attach(optimizer, model=model)
    data = torch.randn(8, 4, generator=torch.Generator().manual_seed(rank))
    local = [p.to_local() for p in model.parameters()]
    frozen = {}
    for step in (1, 2):
        optimizer.zero_grad()
        loss = model(data).pow(2).mean()
        loss.backward()
        if step == 2:
            if rank == 1:
                next(model.parameters()).grad.to_local()[0, 0] = float("nan")
            frozen["before"] = [value for p in local for value in p.flatten().tolist()]
        optimizer.step()
        frozen["after"] = [value for p in local for value in p.flatten().tolist()]
        run.step(step, loss=loss)
    run.save(2, {"model": model, "optimizer": optimizer})
    run.save(3, {"model": model, "optimizer": optimizer}, wait=False)
    run.step(3, loss=loss)  # the ranks' own exchange, while their checkpoint is being written
    run.save(4, {"model": model, "optimizer": optimizer})
    moments = [state["exp_avg"].to_local().clone() for state in optimizer.state.values()]

    again = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 2))
    fully_shard(again, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    fresh = torch.optim.AdamW(again.parameters(), lr=0.1)
    os.environ[wire.ATTEMPT], os.environ[wire.RESUME] = "3", str(Path(os.environ[wire.RUN_DIR]) / "checkpoints/step-3")
    restored = orchestrator.attach(fresh).restore({"model": again, "optimizer": fresh})
    back = [state["exp_avg"].to_local() for state in fresh.state.values()]
    same = all(torch.equal(a.to_local(), b) for a, b in zip(again.parameters(), local, strict=True))
    same_moments = all(torch.equal(a, b) for a, b in zip(back, moments, strict=True)) and len(back) == 4
    return {"restored": restored, "same": same, "same_moments": same_moments, "frozen": frozen}


def quick(rank: int) -> dict[str, object]:
    """Sixty steps as quick as they can be, a checkpoint due after every 25."""
    os.environ[wire.ATTEMPT], os.environ[wire.RESUME], team.HOLD_SECONDS = "4", "", HOLD_SECONDS
    gathered, own = 0, link._gather

    def counting(*args: object, **kwargs: object) -> object:
        nonlocal gathered
        gathered += 1
        return own(*args, **kwargs)

    link._gather = counting
    model = torch.nn.Linear(2, 1)
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = orchestrator.attach(optimizer, model=model)
    saved = []
    for step, _ in run.steps([0], total=60):
        optimizer.zero_grad()
        replica(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        run.step(step, loss=step + rank)
        if run.checkpoint_due:
            saved.append(step)
            run.saved(step, f"step-{step}")
    return {"saved": saved, "gathered": gathered}


def main() -> None:
    inbox.POLL_SECONDS = team.HOLD_SECONDS = 0.0  # every step looks, so that the test knows when a directive acts
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    found = {"replicated": replicated(rank), "sharded": sharded(rank), "quick": quick(rank)}
    (Path(sys.argv[1]) / f"rank{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
