"""Train the tiny GPT: `torchrun --nproc-per-node 2 -m examples.tiny_gpt.train`, or plain python for one rank.

Started by `orchestrate run` it is supervised; started by hand the same file just trains.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import orchestrator
from examples.tiny_gpt.data import Corpus
from examples.tiny_gpt.faults import FAULTS, Faults
from examples.tiny_gpt.model import GPT


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rank, world = join_ranks()
    model = GPT()
    replica = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    corpus = Corpus(args.steps, args.switch, args.seed)
    faults = Faults(args.faults, args.steps, corpus.switch)
    faults.plant(corpus)

    run = orchestrator.attach(optimizer, model=model, shards_total=corpus.shards_total)
    state = {"model": model, "optimizer": optimizer}
    start = run.restore(state)
    batches = corpus.batches(start, run.quarantine, rank, world)
    for step, batch in run.steps(batches, start=start, total=args.steps):
        batch = faults.strike(step, batch, model, optimizer)
        loss = replica(batch.text, batch.following)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.step(step, loss=loss, shards=batch.shards, phase=corpus.phase(step))
        if rank == 0 and (step % args.eval_every == 0 or step == args.steps):
            val = evaluate(model, corpus.held_out)
            run.eval(step, val=val)
            print(f"step {step} loss {loss.item():.4f} val {val:.4f}", flush=True)
        if run.checkpoint_due:
            run.save(step, state)
        if run.stop_requested:
            break
    if world > 1:
        dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--switch", type=int, default=400, help="the step after which code begins")
    parser.add_argument("--eval-every", type=int, default=50)
    parser.add_argument("--faults", choices=sorted(FAULTS), default="none", help="what shall go wrong")
    return parser.parse_args()


def join_ranks() -> tuple[int, int]:
    """This process's rank and how many there are; torchrun sets both."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    return int(os.environ.get("RANK", "0")), world


@torch.no_grad()
def evaluate(model: nn.Module, held_out: Tensor) -> float:
    """The mean loss on text that is never trained on, half of it prose and half code."""
    rows = held_out.long()
    return float(model(rows[:, :-1], rows[:, 1:]))


if __name__ == "__main__":
    main()
