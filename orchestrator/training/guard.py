"""What acts on an update, as optimizer step hooks: the rate's factor, the gradient limit, the non-finite guard.

The rate is changed for the length of one `optimizer.step()` and put back: nothing of ours enters the
trainer's scheduler or a checkpoint, so a resume cannot bring an old rate back.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from orchestrator.core.policy import Policy
from orchestrator.core.schedule import clip_at, phase_factor, rate
from orchestrator.training.clipping import Adaptive
from orchestrator.training.shield import Shield


class Manner(NamedTuple):
    """How updates are judged: `check` may wait for the device and skip one; `hooked` does it in the step hook.

    Frameworks that run the backward pass inside `optimizer.step`, or clip sharded gradients by a way of their
    own, are not `hooked`: their adapter calls `judge`, or hands over the norm.
    """

    check: bool = True
    hooked: bool = True


AHEAD = 64  # steps whose factor and limit are worked out together

NAMED = 3  # parameters that are named where a gradient is not finite

# Plain tuples: they are made in every step. The norm before clipping, which stays a tensor on its device where reading
# it would have meant waiting; the limit in force; how many parameters have a gradient that is not finite; whether the
# update was skipped; the names of the first of those parameters.
Verdict: TypeAlias = tuple[float | Tensor | None, float | None, int, bool, tuple[str, ...]]
Done: TypeAlias = tuple[tuple[float, ...], Verdict]  # the effective rates of the first optimizer's groups with it
UNJUDGED: Verdict = (None, None, 0, False, ())


class Guard:
    """Hooks on the optimizers of one `attach`; they share one gradient norm, one limit and one verdict.

    `name_of` tells a parameter's name where the model is known. A `Manner` without `check` never waits for the
    device, hence never skips an update.
    """

    def __init__(
        self, optimizers: Sequence[Optimizer], shield: Shield, manner: Manner, ready: Callable[[], None],
        name_of: Callable[[Tensor], str] = lambda parameter: "",
    ) -> None:  # fmt: skip
        self._optimizers, self._shield, self._manner, self._name_of = optimizers, shield, manner, name_of
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
        self._alone = manner.hooked and not self._several
        self._lrs: tuple[float, ...] = ()
        self._verdict: Verdict = UNJUDGED
        self._given: tuple[Tensor, float | None] | None = None
        self._adaptive: Adaptive | None = None
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(self._before)
            optimizer.register_step_post_hook(self._after)

    def follow(self, policy: Policy | None) -> None:
        """The policy whose schedule and clip count; None where the trainer's own rate is only scaled."""
        self._policy, self._ready = policy, None
        rule = None if policy is None else policy.clip.adaptive
        self._adaptive = None if rule is None else Adaptive(rule)
        self._table.clear()

    def arm(self, step: int, scale: float, clip_scale: float) -> None:
        """The next update leads to `step`; `scale` and `clip_scale` are what incidents make of rate and limit."""
        self._step = step
        self.scale(scale, clip_scale)

    def scale(self, scale: float, clip_scale: float) -> None:
        """What incidents make of rate and limit from now on."""
        if scale != self._scale or clip_scale != self._clip_scale:
            self._scale, self._clip_scale = scale, clip_scale
            self._table.clear()

    def take(self, step: int) -> Done:
        """What was done to the update to `step`; the next one leads to the step after it."""
        self._step = step + 1
        done = self._lrs, self._verdict
        self._lrs, self._verdict = (), UNJUDGED
        if self._given is not None:
            done = done[0], self._unjudged(*self._given, skipped=not done[0])
            self._given = None
        if self._judged:
            self._judged.clear()
        return done

    @property
    def finite(self) -> bool | None:
        """Whether the update that `take` will tell of is finite; None where nobody looked, or it is still computed."""
        norm = self._verdict[0] if self._given is None else self._given[0]
        if norm is None or (isinstance(norm, Tensor) and norm.device.type != "cpu"):
            return None
        return isfinite(norm)

    # --- for frameworks with ways of their own ----------------------------------------------------------

    @property
    def limit(self) -> float | None:
        """The norm's limit for the update to come; None where the policy sets none."""
        if self._ready is not None:
            self._ready()
        return self._least(self._now()[1])

    def _least(self, fixed: float | None) -> float | None:
        """The fixed limit, or the adaptive one where that is lower."""
        if self._adaptive is None:
            return fixed
        found = self._adaptive.limit()
        return fixed if found is None else found if fixed is None else min(fixed, found)

    def hand(self, norm: Tensor, limit: float | None) -> None:
        """The framework has measured the norm of this update, and has clipped it to `limit` itself."""
        self._given = (norm.detach(), limit)

    def judge(self, optimizer: Optimizer) -> None:
        """Measure, clip and if need be drop the update whose gradients are ready now."""
        if self._ready is not None:
            self._ready()
        if self._several:
            if id(optimizer) in self._judged:
                self._judged.discard(id(optimizer))
                return
            self._judged = {id(other) for other in self._optimizers if other is not optimizer}
        self._shield.run("gradient guard", self._judge, optimizer)

    # --- the rate ---------------------------------------------------------------------------------------

    def _now(self) -> tuple[float, float | None]:
        """The rate's factor and the norm's fixed limit of the next update."""
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
        if self._alone:
            self._shield.run("gradient guard", self._judge, optimizer)
        elif self._manner.hooked:
            self.judge(optimizer)

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
                ours = group["lr"] = own * factor
                self._changed.append((group, own, ours))
        if optimizer is self._optimizers[0]:
            self._lrs = _rates_of(groups)

    def _put_back(self) -> None:
        for group, own, ours in self._changed:
            if group["lr"] is ours:
                group["lr"] = own
        self._changed.clear()

    # --- the gradients ----------------------------------------------------------------------------------

    def _judge(self, optimizer: Optimizer) -> None:
        found = [p for o in self._optimizers for g in o.param_groups for p in g["params"] if p.grad is not None]
        if not found:
            return
        given, self._given = self._given, None
        if given is None:
            norm, limit = self._measured(optimizer, found), self._least(self._now()[1])
        else:
            norm, limit = given
        if not self._manner.check and norm.device.type != "cpu":
            if limit is not None and given is None:
                torch.nn.utils.clip_grads_with_norm_(found, limit, norm)
            self._verdict = (norm, limit, 0, False, ())
            return
        value = norm.item()
        if isfinite(value):
            if limit is not None and value > limit and given is None:
                _shrink(found, limit, norm)
            if self._adaptive is not None:
                self._adaptive.add(value)
            self._verdict = (value, limit, 0, False, ())
            return
        bad = [p for p in found if _is_bad(p.grad)]
        names = tuple(filter(None, map(self._name_of, bad[:NAMED])))
        self._verdict = (value, limit, len(bad), self._manner.check, names)
        if self._manner.check:  # without a gradient an optimizer passes a parameter over, its state and step count too
            for parameter in found:
                parameter.grad = None

    def _unjudged(self, norm: Tensor, limit: float | None, skipped: bool) -> Verdict:
        """The update whose norm was handed over and whose `optimizer.step` either never came or judges nothing."""
        if norm.device.type != "cpu":
            return norm, limit, 0, skipped, ()
        value = norm.item()
        if self._adaptive is not None and isfinite(value):
            self._adaptive.add(value)
        return value, limit, 0, skipped, ()

    def _measured(self, optimizer: Optimizer, found: list[Tensor]) -> Tensor:
        norm = _norm_of([p.grad for p in found if p.grad is not None])
        if isinstance(norm, DTensor):  # sharded gradients: the one reduction that makes every rank agree
            norm = norm.full_tensor()
        unscale = getattr(optimizer, "grad_scale", None)
        # A fused optimizer under a loss scaler divides inside its own kernel.
        return norm if unscale is None else norm / unscale


def _norm_of(grads: list[Tensor]) -> Tensor:
    """What `torch.nn.utils.get_total_norm` finds, to the last bit; where there is nothing to sort, without sorting."""
    dtype, device = grads[0].dtype, grads[0].device
    if all(type(grad) is Tensor and grad.dtype is dtype and grad.device == device for grad in grads):
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        return norm
    return torch.nn.utils.get_total_norm(grads)


def _shrink(found: list[Tensor], limit: float, norm: Tensor) -> None:
    """Clip to a limit that the norm is known to pass; equal to torch's own to the last bit."""
    if norm.device.type != "cpu":
        torch.nn.utils.clip_grads_with_norm_(found, limit, norm)
        return
    factor = limit / (norm + 1e-6)
    for parameter in found:
        parameter.grad.mul_(factor)  # type: ignore[union-attr]


def _rates_of(groups: list[dict[str, Any]]) -> tuple[float, ...]:
    first = groups[0]["lr"]
    if len(groups) == 1 and type(first) is float:
        return (first,)
    rates = [group["lr"] for group in groups]
    if any(isinstance(lr, Tensor) and lr.device.type != "cpu" for lr in rates):
        return ()  # reading them would wait for the device
    return tuple(map(float, rates))


def _is_bad(grad: Tensor | None) -> bool:
    local = grad.to_local() if isinstance(grad, DTensor) else grad
    return local is not None and not bool(torch.isfinite(local).all())
