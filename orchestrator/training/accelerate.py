"""accelerate: one line, `run = orchestrator.training.accelerate.attach(accelerator, optimizer, model)`.

Called after `accelerator.prepare`; the loop goes on as with plain torch (`run.steps`, `run.step`, `run.save`). The
rate, the guard and the limit act as they do there; `accelerator.clip_grad_norm_` clips to the policy's limit where
it sets one, and the norm it measures is not measured again. With DeepSpeed underneath use its own adapter.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Any

from torch import Tensor

from orchestrator.training.hook import attach as attach_torch
from orchestrator.training.run import Run


def attach(accelerator: Any, optimizer: Any, model: Any = None, **options: Any) -> Run:
    """Join the supervisor; `optimizer` and `model` as `prepare` returned them, `options` those of plain `attach`."""
    run = attach_torch(optimizer, model, **options)
    share_clip(accelerator, run)
    return run


def share_clip(accelerator: Any, run: Run) -> None:
    """Let `accelerator.clip_grad_norm_` clip to the policy's limit, and keep the norm that it measures."""
    guard = getattr(run, "guard", None)
    if guard is None:
        return
    own = accelerator.clip_grad_norm_

    def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2) -> Any:
        limit = guard.limit
        used = max_norm if limit is None else limit
        norm = own(parameters, used, norm_type=norm_type)
        if isinstance(norm, Tensor):
            guard.hand(norm, used if isfinite(used) else None)
        return norm

    accelerator.clip_grad_norm_ = clip_grad_norm_
