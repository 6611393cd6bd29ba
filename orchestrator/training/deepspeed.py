"""DeepSpeed: one line, `run = orchestrator.training.deepspeed.attach(engine)`, after `deepspeed.initialize`.

The rate's factor acts in the step hooks of the optimizer inside; the engine's own scheduler and checkpoints never
meet it. The limit is the engine's, set live; the norm is the one the engine measured. There is no guard: gradients are
cut and flattened where only the engine sees them whole, and its fp16 overflow check skips by itself.
"""

import os
from pathlib import Path
from typing import Any

import torch

from orchestrator import wire
from orchestrator.training.hook import attach_unhooked
from orchestrator.training.run import Run


def attach(engine: Any, *, shards_total: int | None = None, trace: bool = False) -> Run:
    """Join the supervisor; the loop calls `run.step` after `engine.step()`, and `save`, `restore` of this module."""
    run = attach_unhooked(engine.optimizer, engine.module, shards_total=shards_total, trace=trace)
    guard = getattr(run, "guard", None)
    if guard is None:
        return run
    own = engine.step

    def step(*args: Any, **kwargs: Any) -> Any:
        whole, limit = engine.is_gradient_accumulation_boundary(), guard.limit
        if limit is not None and hasattr(engine.optimizer, "clip_grad"):
            engine.optimizer.clip_grad = limit
        done = own(*args, **kwargs)
        norm = engine.get_global_grad_norm() if whole else None
        if norm is not None:
            guard.hand(torch.as_tensor(norm), limit)
        return done

    engine.step = step
    return run


def restore(run: Run, engine: Any) -> int:
    """Load the checkpoint this attempt resumes from and say where the loop begins; 0 when it starts fresh."""
    path = Path(os.environ.get(wire.RESUME, ""))
    if run.supervised and path.name:
        engine.load_checkpoint(str(path.parent), tag=path.name)
    run.begin(engine.global_steps)
    return int(engine.global_steps)


def save(run: Run, engine: Any, step: int) -> None:
    """Write the engine's own checkpoint, a folder `global_step<N>`; every rank calls it."""
    folder = run.folder()
    if folder is not None:
        engine.save_checkpoint(str(folder), tag=f"global_step{step}")
        run.saved(step, f"{folder}/global_step{step}")
