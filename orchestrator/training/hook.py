"""`attach`: the one call by which a training process joins its supervisor."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orchestrator import wire
from orchestrator.training.run import Run
from orchestrator.training.shield import Shield

__all__ = ["Run", "attach"]


def attach(
    optimizer: Any, model: Any = None, *, total: int | None = None, shards_total: int | None = None, guard: bool = True,
    trace: bool = False,
) -> Run:  # fmt: skip
    """Join this process to the supervisor that started it; without one, return a `Run` that does nothing.

    `optimizer` is one optimizer or several; they share one gradient norm. `model` lets checkpoints say whether
    the weights are finite. `total` is the last step of a loop that does not go through `Run.steps`; `shards_total`
    is how many shards the data set has, for limits on leaving some out.
    `guard` off never skips an update; on an accelerator the guard costs one synchronisation a step.
    `trace` names, for a step that is not finite, the first module of `model` whose output is not; it costs a small
    reduction a module.
    Every rank of a job calls it. It never raises for a fault of ours: the process then trains on its own.
    """
    if not os.environ.get(wire.RUN_DIR) or _in_loader_worker():
        return Run()
    return Shield().run("attach", _join, optimizer, model, (total, shards_total), (guard, True), trace) or Run()


def attach_unhooked(optimizer: Any, model: Any = None, *, shards_total: int | None = None, trace: bool = False) -> Run:
    """`attach` for a framework whose gradients are not ready, or not whole, when `optimizer.step` is called.

    The rate is scaled as ever; gradients are looked at only where the adapter calls `Guard.judge` or `Guard.hand`.
    """
    if not os.environ.get(wire.RUN_DIR) or _in_loader_worker():
        return Run()
    return Shield().run("attach", _join, optimizer, model, (None, shards_total), (True, False), trace) or Run()


def _join(
    optimizer: Any, model: Any, sizes: tuple[int | None, int | None], manner: tuple[bool, bool], trace: bool
) -> Run:
    # Here, not above: without a supervisor no process pays for torch.
    from orchestrator.training.guard import Manner
    from orchestrator.training.live import Live, Sizes
    from orchestrator.training.meeting import Place, claim
    from orchestrator.training.stacks import offer

    place = Place(Path(os.environ[wire.RUN_DIR]), int(os.environ.get(wire.ATTEMPT, "1")), _rank())
    if not claim(place):
        return Run()
    offer(place.folder)
    optimizers = [innermost(o) for o in (optimizer if isinstance(optimizer, Iterable) else [optimizer])]
    kind: type[Live] = Live
    if trace:
        from orchestrator.training.trace import Traced as kind
    return kind(place, optimizers, model, Manner(*manner), Sizes(*sizes))


def innermost(optimizer: Any) -> Any:
    """torch's own optimizer inside a framework's wrappers, which is the one that steps."""
    while (inner := getattr(optimizer, "optimizer", None)) is not None and hasattr(inner, "param_groups"):
        optimizer = inner
    return optimizer


def _rank() -> int:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0"))


def _in_loader_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
