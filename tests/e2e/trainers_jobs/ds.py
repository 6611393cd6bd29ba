"""DeepSpeed on a CPU, one process, its own scheduler left out."""

import os

import deepspeed
import torch

import orchestrator.training.deepspeed as supervision
from tests.e2e.trainers_jobs import task


def main() -> None:
    args = task.arguments()
    torch.set_num_threads(1)
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    deepspeed.init_distributed("gloo")
    model = task.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: task.rise(args.fault, done + 1))
    settings = {
        "train_micro_batch_size_per_gpu": task.ROWS,
        "zero_optimization": {"stage": 1},
        "bf16": {"enabled": True},
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, lr_scheduler=scheduler, config=settings)
    run = supervision.attach(engine, shards_total=len(task.SHARDS))
    start = supervision.restore(run, engine)
    stream = task.batches(args.fault)
    for _ in range(start):
        next(stream)
    for step, batch in run.steps(stream, start=start, total=args.steps):
        loss = task.loss_of(engine(batch.tokens[:, :-1]).float(), batch.tokens)
        engine.backward(loss)
        engine.step()
        run.step(step, loss=loss, shards=[batch.shard])
        if run.checkpoint_due:
            supervision.save(run, engine, step)
        if run.stop_requested:
            break


if __name__ == "__main__":
    main()
