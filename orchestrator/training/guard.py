"""What acts on an update, as optimizer step hooks: the rate's factor, the gradient limit, the non-finite guard.

The rate is changed for the length of one `optimizer.step()` and put back: nothing of ours enters the
trainer's scheduler or a checkpoint, so a resume cannot bring an old rate back.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from orchestrator.core.policy import Policy
from orchestrator.core.schedule import clip_at, phase_factor, rate
from orchestrator.training.shield import Shield


class Report(NamedTuple):
    """What was done to the update: effective rates by group, norm before clipping, limit in force.

    `grad_norm` stays a tensor on its device where reading it would have meant waiting.
    """

    lrs: tuple[float, ...] = ()
    grad_norm: float | Tensor | None = None
    clip: float | None = None
    nonfinite: int = 0
    skipped: bool = False


AHEAD = 64  # steps whose factor and limit are worked out together

_NONE: tuple[float | Tensor | None, float | None, int, bool] = (None, None, 0, False)


class Guard:
    """Hooks on the optimizers of one `attach`; they share one gradient norm, one limit and one verdict.

    `check` off means: never wait for the device, hence never skip an update.
    """

    def __init__(self, optimizers: Sequence[Optimizer], shield: Shield, check: bool, ready: Callable[[], None]) -> None:
        self._optimizers, self._shield, self._check = optimizers, shield, check
        self._ready: Callable[[], None] | None = ready
        first = optimizers[0].param_groups[0]
        # A scheduler built before us has already moved "lr"; "initial_lr" is the rate it is relative to.
        self._base = float(first.get("initial_lr", first["lr"]))
        self._policy: Policy | None = None
        self._step, self._scale, self._clip_scale = 1, 1.0, 1.0
        self._table: dict[int, tuple[float, float | None]] = {}
        self._changed: list[tuple[dict[str, Any], Any, Any]] = []
        self._judged: set[int] = set()
        self._several = len(optimizers) > 1
        self._lrs: tuple[float, ...] = ()
        self._verdict = _NONE
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(self._before)
            optimizer.register_step_post_hook(self._after)

    def follow(self, policy: Policy | None) -> None:
        """The policy whose schedule and clip count; None where the trainer's own rate is only scaled."""
        self._policy, self._ready = policy, None
        self._table.clear()

    def arm(self, step: int, scale: float, clip_scale: float) -> None:
        """The next update leads to `step`; `scale` and `clip_scale` are what incidents make of rate and limit."""
        self._step = step
        if scale != self._scale or clip_scale != self._clip_scale:
            self._scale, self._clip_scale = scale, clip_scale
            self._table.clear()

    def take(self) -> Report:
        """What the update since the last call was like."""
        lrs, (norm, clip, bad, skipped) = self._lrs, self._verdict
        self._lrs, self._verdict = (), _NONE
        if self._judged:
            self._judged.clear()
        return Report(lrs, norm, clip, bad, skipped)

    def _now(self) -> tuple[float, float | None]:
        """The rate's factor and the norm's limit of the next update."""
        found = self._table.get(self._step)
        if found is None:
            # Evaluated for some steps in one go: between a step's tensor operations the same code runs cold.
            self._table = {step: self._at(step) for step in range(self._step, self._step + AHEAD)}
            found = self._table[self._step]
        return found

    def _at(self, step: int) -> tuple[float, float | None]:
        policy = self._policy
        if policy is None:
            return self._scale, None
        factor = self._scale * phase_factor(policy.phases, step)
        if policy.schedule is not None:
            if not self._base:
                raise ValueError("the policy's schedule needs an optimizer whose rate is not 0 when it is attached")
            factor *= rate(policy.schedule, step) / self._base
        return factor, clip_at(policy, step, self._clip_scale)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._ready is not None:
            self._ready()
        self._shield.run("learning rate", self._scale_rates, optimizer)
        if self._several:
            if id(optimizer) in self._judged:
                self._judged.discard(id(optimizer))
                return
            self._judged = {id(other) for other in self._optimizers if other is not optimizer}
        self._shield.run("gradient guard", self._judge, optimizer)

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._changed:
            self._put_back()

    def _scale_rates(self, optimizer: Optimizer) -> None:
        if self._changed:  # an optimizer.step() that raised never came to its end
            self._put_back()
        factor = self._now()[0]
        groups = optimizer.param_groups
        if factor != 1.0:
            for group in groups:
                own = group["lr"]
                # Rebind, never in place: the rate may be a tensor that the trainer holds too.
                group["lr"] = own * factor
                self._changed.append((group, own, group["lr"]))
        if optimizer is self._optimizers[0]:
            self._lrs = _rates_of(groups)

    def _put_back(self) -> None:
        for group, own, ours in self._changed:
            if group["lr"] is ours:
                group["lr"] = own
        self._changed.clear()

    def _judge(self, optimizer: Optimizer) -> None:
        found = [p for o in self._optimizers for g in o.param_groups for p in g["params"] if p.grad is not None]
        if not found:
            return
        grads = [p.grad for p in found]
        norm = torch.nn.utils.get_total_norm(grads)
        if isinstance(norm, DTensor):  # sharded gradients: the one reduction that makes every rank agree
            norm = norm.full_tensor()
        unscale = getattr(optimizer, "grad_scale", None)
        if unscale is not None:  # a fused optimizer under a loss scaler divides inside its own kernel
            norm = norm / unscale
        limit = self._now()[1]
        if not self._check and norm.device.type != "cpu":
            if limit is not None:
                torch.nn.utils.clip_grads_with_norm_(found, limit, norm)
            self._verdict = (norm, limit, 0, False)
            return
        value = norm.item()
        if isfinite(value):
            if limit is not None and value > limit:
                torch.nn.utils.clip_grads_with_norm_(found, limit, norm)
            self._verdict = (value, limit, 0, False)
            return
        self._verdict = (value, limit, sum(_is_bad(grad) for grad in grads), self._check)
        if self._check:  # without a gradient an optimizer passes a parameter over, its state and step count too
            for parameter in found:
                parameter.grad = None


def _rates_of(groups: list[dict[str, Any]]) -> tuple[float, ...]:
    rates = [group["lr"] for group in groups]
    if any(isinstance(lr, Tensor) and lr.device.type != "cpu" for lr in rates):
        return ()  # reading them would wait for the device
    return tuple(map(float, rates))


def _is_bad(grad: Tensor) -> bool:
    local = grad.to_local() if isinstance(grad, DTensor) else grad
    return not bool(torch.isfinite(local).all())
