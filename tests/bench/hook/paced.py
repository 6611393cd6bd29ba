"""The example's trainer with a watch beside it: rank 0 leaves the seconds of each step in the file named by PACED.

With a limit in CLIP, gradients are clipped by torch's own function before every update.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from examples.tiny_gpt import train
from orchestrator.training.run import Run

numbered = Run.steps


def steps(self: Run, loader: Iterable[Any], start: int = 0, total: int | None = None) -> Iterator[tuple[int, Any]]:
    """`Run.steps`, which supervised and bare runs share, timed from one batch to the next."""
    took, before = [], 0.0
    for step in numbered(self, loader, start, total):
        now = time.perf_counter()
        took.append(now - before)
        before = now
        yield step
    if os.environ.get("RANK", "0") == "0":
        Path(os.environ["PACED"]).write_text(json.dumps(took[1:]), encoding="utf-8")


def clip(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, float(os.environ["CLIP"]))


if __name__ == "__main__":
    Run.steps = steps  # type: ignore[method-assign]
    if os.environ.get("CLIP"):
        register_optimizer_step_pre_hook(clip)
    train.main()
