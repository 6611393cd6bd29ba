"""accelerate, with its clipping and its accumulation of nothing."""

import torch
from accelerate import Accelerator

from orchestrator.training.accelerate import attach
from tests.e2e.trainers_jobs import task


def main() -> None:
    args = task.arguments()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    model = task.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: task.rise(args.fault, done + 1))
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    run = attach(accelerator, optimizer, model, shards_total=len(task.SHARDS))
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    start = run.restore(state)
    stream = task.batches(args.fault)
    for _ in range(start):
        next(stream)
    for step, batch in run.steps(stream, start=start, total=args.steps):
        loss = task.loss_of(model(batch.tokens[:, :-1]), batch.tokens)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        run.step(step, loss=loss, shards=[batch.shard])
        if run.checkpoint_due:
            run.save(step, state)
        if run.stop_requested:
            break


if __name__ == "__main__":
    main()
