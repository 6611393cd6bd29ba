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


RATE, GRADIENTS = "learning rate", "gradient guard"  # the parts that a failure puts to sleep
AHEAD = 64  # steps whose factor and limit are worked out together

NAMED = 3  # parameters that are named where a gradient is not finite

# Plain tuples: they are made in every step. The norm before clipping, which stays a tensor on its device where reading
# it would have meant waiting; the limit in force; how many parameters have a gradient that is not finite; whether the
# update was skipped; the names of the first of those parameters.
Verdict: TypeAlias = tuple[float | Tensor | None, float | None, int, bool, tuple[str, ...]]
Done: TypeAlias = tuple[tuple[float, ...], Verdict]  # the effective rates of the first optimizer's groups with it
UNJUDGED: Verdict = (None, None, 0, False, ())
UNDONE: Done = ((), UNJUDGED)


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
        self.step = 1  # the one that the next update leads to
        self.done: Done | None = None  # of the last update, whole and not yet taken
        self._scale, self._clip_scale = 1.0, 1.0
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
            optimizer.register_step_post_hook(self._put_back)

    def follow(self, policy: Policy | None) -> None:
        """The policy whose schedule and clip count; None where the trainer's own rate is only scaled."""
        self._policy, self._ready = policy, None
        rule = None if policy is None else policy.clip.adaptive
        self._adaptive = None if rule is None else Adaptive(rule)
        self._table.clear()

    def arm(self, step: int, scale: float, clip_scale: float) -> None:
        """The next update leads to `step`; `scale` and `clip_scale` are what incidents make of rate and limit."""
        self.step = step
        self.scale(scale, clip_scale)

    def scale(self, scale: float, clip_scale: float) -> None:
        """What incidents make of rate and limit from now on."""
        self._scale = scale
        if clip_scale != self._clip_scale:
            self._clip_scale = clip_scale
            self._table.clear()

    def take(self) -> Done:
        """What was done to the last update, to be told once."""
        done = self._known
        self.done, self._lrs, self._verdict = None, (), UNJUDGED
        if self._given is not None:
            done = done[0], self._unjudged(*self._given, skipped=not done[0])
            self._given = None
        if self._judged:
            self._judged.clear()
        return done

    @property
    def _known(self) -> Done:
        return self.done or (self._lrs, self._verdict)

    @property
    def finite(self) -> bool | None:
        """Whether the update that `take` will tell of is finite; None where nobody looked, or it is still computed."""
        norm = self._known[1][0] if self._given is None else self._given[0]
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
        found = None if self._adaptive is None else self._adaptive.limit()
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
        self._verdict = self._shield.run(GRADIENTS, self._judge, optimizer) or self._verdict

    # --- the rate ---------------------------------------------------------------------------------------

    def _now(self) -> tuple[float, float | None]:
        """The policy's own factor of the rate, and the norm's fixed limit, for the next update."""
        return self._table.get(self.step) or self._look_ahead()

    def _look_ahead(self) -> tuple[float, float | None]:
        self._table = {step: self._at(step) for step in range(self.step, self.step + AHEAD)}
        return self._table[self.step]

    def _at(self, step: int) -> tuple[float, float | None]:
        policy = self._policy
        if policy is None:
            return 1.0, None
        factor = phase_factor(policy.phases, step)
        if policy.schedule is not None:
            if not self._base:
                raise ValueError("the policy's schedule needs an optimizer whose rate is not 0 when it is attached")
            factor *= rate(policy.schedule, step) / self._base
        return factor, clip_at(policy, step, self._clip_scale)

    # What every step does is written out: between tensor operations a call runs cold and costs microseconds.

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._ready is not None:
            self._ready()
        asleep = self._shield.asleep
        lrs, verdict = self.done or UNDONE  # more than one update may be told of with one step
        if RATE not in asleep:
            try:
                if self._changed:  # an optimizer.step() that raised never came to its end
                    self._put_back()
                factor = (self._table.get(self.step) or self._look_ahead())[0] * self._scale
                groups = optimizer.param_groups
                if factor != 1.0:
                    for group in groups:
                        own = group["lr"]
                        # Rebind, never in place: the rate may be a tensor that the trainer holds too.
                        ours = group["lr"] = own * factor
                        self._changed.append((group, own, ours))
                if optimizer is self._optimizers[0]:
                    lr = groups[0]["lr"]
                    lrs = (lr,) if len(groups) == 1 and type(lr) is float else _rates_of(groups)
            except Exception as error:  # noqa: BLE001  the trainer is kept from our faults
                self._shield.failed(RATE, error)
        if not self._alone:
            self._lrs = lrs or self._lrs
            if self._manner.hooked:
                self.judge(optimizer)
            return
        if GRADIENTS not in asleep:
            try:
                verdict = self._judge(optimizer)
            except Exception as error:  # noqa: BLE001  as above
                self._shield.failed(GRADIENTS, error)
        if self._given is None:
            self.done = lrs, verdict
        else:  # a norm was handed over and nothing was there to judge: `take` tells of it
            self._lrs = lrs

    def _put_back(self, *hook: Any) -> None:
        for group, own, ours in self._changed:
            if group["lr"] is ours:
                group["lr"] = own
        self._changed.clear()

    # --- the gradients ----------------------------------------------------------------------------------

    def _judge(self, optimizer: Optimizer) -> Verdict:
        found = [p for o in self._optimizers for g in o.param_groups for p in g["params"] if p.grad is not None]
        if not found:
            return self._known[1]
        given, self._given = self._given, None
        if given is None:
            norm = _norm_of([p.grad for p in found if p.grad is not None])
            unscale = getattr(optimizer, "grad_scale", None)
            if unscale is not None:  # a fused optimizer under a loss scaler divides inside its own kernel
                norm = norm / unscale
            _, limit = self._table.get(self.step) or self._look_ahead()
            if self._adaptive is not None:
                limit = self._least(limit)
        else:
            norm, limit = given
        if not self._manner.check and norm.device.type != "cpu":
            if limit is not None and given is None:
                torch.nn.utils.clip_grads_with_norm_(found, limit, norm)
            return norm, limit, 0, False, ()
        value = norm.item()
        if not isfinite(value):
            return self._drop(found, value, limit)
        if limit is not None and value > limit and given is None:
            _shrink(found, limit, norm)
        if self._adaptive is not None:
            self._adaptive.add(value)
        return value, limit, 0, False, ()

    def _drop(self, found: list[Tensor], norm: float, limit: float | None) -> Verdict:
        """Name the gradients that are not finite, and pass the update over where that is wanted."""
        bad = [p for p in found if _is_bad(p.grad)]
        names = tuple(filter(None, map(self._name_of, bad[:NAMED])))
        if self._manner.check:  # without a gradient an optimizer passes a parameter over, its state and step count too
            for parameter in found:
                parameter.grad = None
        return norm, limit, len(bad), self._manner.check, names

    def _unjudged(self, norm: Tensor, limit: float | None, skipped: bool) -> Verdict:
        """The update whose norm was handed over and whose `optimizer.step` either never came or judges nothing."""
        if norm.device.type != "cpu":
            return norm, limit, 0, skipped, ()
        value = norm.item()
        if self._adaptive is not None and isfinite(value):
            self._adaptive.add(value)
        return value, limit, 0, skipped, ()


def _norm_of(grads: list[Tensor]) -> Tensor:
    """The norm of the whole gradient, on every rank the same.

    It is what `torch.nn.utils.get_total_norm` finds, to the last bit; where there is nothing to sort, without sorting.
    """
    dtype, device = grads[0].dtype, grads[0].device
    if all(type(grad) is Tensor and grad.dtype is dtype and grad.device == device for grad in grads):
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        return norm
    norm = torch.nn.utils.get_total_norm(grads)
    # Sharded gradients: the one reduction that makes every rank agree.
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def _shrink(found: list[Tensor], limit: float, norm: Tensor) -> None:
    """Clip to a limit that the norm is known to pass; equal to torch's own to the last bit."""
    if norm.device.type != "cpu":
        torch.nn.utils.clip_grads_with_norm_(found, limit, norm)
        return
    factor = limit / (norm + 1e-6)
    for parameter in found:
        parameter.grad.mul_(factor)  # type: ignore[union-attr]


def _rates_of(groups: list[dict[str, Any]]) -> tuple[float, ...]:
    rates = [group["lr"] for group in groups]
    if any(isinstance(lr, Tensor) and lr.device.type != "cpu" for lr in rates):
        return ()  # reading them would wait for the device
    return tuple(map(float, rates))


def _is_bad(grad: Tensor | None) -> bool:
    local = grad.to_local() if isinstance(grad, DTensor) else grad
    return local is not None and not bool(torch.isfinite(local).all())
