"""A real trainer of one linear layer that saves through the hook, and whose weights one bad shard ruins."""

import sys
import time

import torch

import orchestrator

TOTAL, BAD = 200, 12  # steps; the shard of ten steps that ruins the weights


def main(later: bool) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = orchestrator.attach(optimizer, model=model, shards_total=1000)
    state = {"model": model, "optimizer": optimizer}
    start = run.restore(state)
    truth = torch.ones(8, 1)
    for step, _ in run.steps(range(TOTAL), start=start, total=TOTAL):
        shard = f"shard-{step // 10}"
        batch = torch.randn(64, 8, generator=torch.Generator().manual_seed(step))
        loss = (model(batch) - batch @ truth).pow(2).mean() * 0.01 + 2.0
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step // 10 == BAD and shard not in run.quarantine:
            model.weight.data += 5.0
        run.step(step, loss=loss, shards=[shard])
        time.sleep(0.3 if loss > 2.5 else 0.01)
        if run.checkpoint_due:
            run.save(step, state, wait=not later)
        if run.stop_requested:
            break


if __name__ == "__main__":
    main("later" in sys.argv)
