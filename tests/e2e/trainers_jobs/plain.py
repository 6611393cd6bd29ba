"""Plain torch, alone or under DDP with gloo ranks."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import orchestrator
from tests.e2e.trainers_jobs import task


def main() -> None:
    args = task.arguments()
    torch.set_num_threads(1)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    model = task.model()
    replica = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: task.rise(args.fault, done + 1))
    run = orchestrator.attach(optimizer, model=model, shards_total=len(task.SHARDS))
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    start = run.restore(state)
    stream = task.batches(args.fault)
    for _ in range(start):
        next(stream)
    for step, batch in run.steps(stream, start=start, total=args.steps):
        loss = task.loss_of(replica(batch.tokens[:, :-1]), batch.tokens)
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        run.step(step, loss=loss, shards=[batch.shard])
        if run.checkpoint_due:
            run.save(step, state)
        if run.stop_requested:
            break
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
