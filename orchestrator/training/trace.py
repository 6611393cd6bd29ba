"""`trace`: where a step that is not finite began, as the first module to finish with an output that is not.

A hook on every module takes the largest magnitude of its output. In the CPU's memory it is looked at in place; on an
accelerator a flag stays there, read only when the step turns out not to be finite (where nothing tells, such as with
the guard off, at every step: that waits for the device). Modules that put out infinities in the first finite step do so
by design, such as masks, and are passed over. Inside a compiled region nothing is looked at.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from orchestrator.training.live import Live
from orchestrator.training.shield import Shield, warn

_NEVER = 2**62
_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?:\.|$)")


class Traced(Live):
    """A run whose records of steps that are not finite name the module that was first."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._trace = Trace(self._model, self._shield)

    def step(self, step: int, *, loss: Any = None, shards: Sequence[str] = (), **fields: Any) -> None:
        if name := self._shield.run("trace", self._trace.take, self._finite_step(loss)):
            fields["nonfinite_module"] = name
        super().step(step, loss=loss, shards=shards, **fields)

    def _finite_step(self, loss: Any) -> bool | None:
        """None where that would have to be waited for."""
        if isinstance(loss, Tensor):
            loss = loss.item() if loss.device.type == "cpu" else None
        if loss is not None and not isfinite(loss):
            return False
        return self.guard.finite


class Trace:
    """The hooks on one model; they change no output, and keep nothing of it but a number."""

    def __init__(self, model: Any, shield: Shield) -> None:
        self._shield = shield
        self._names: list[str] = []
        self._calls = 0
        self._bad: dict[int, None] = {}  # modules in the order in which they were found
        self._flags: dict[torch.device, Tensor] = {}  # the first call that was bad, times the modules, plus its module
        self._usual: frozenset[int] | None = None
        if not isinstance(model, torch.nn.Module):
            warn("trace needs attach(..., model=...): no module will be named")
            return
        for name, module in model.named_modules():
            module.register_forward_hook(partial(self._hook, len(self._names)))
            self._names.append(_bare(name) or type(module).__name__)

    def take(self, finite: bool | None) -> str:
        """The first module since the last call, "" when there was none; none is sought for a finite step."""
        bad, self._bad = self._bad, {}
        flags, self._flags, self._calls = self._flags, {}, 0
        if self._usual is None and (finite or not bad):
            self._usual = frozenset(bad)
        if finite:
            return ""
        if bad:
            return self._names[next(iter(bad))]
        first = min((int(flag) for flag in flags.values()), default=_NEVER)
        return "" if first == _NEVER else self._names[first % len(self._names)]

    def _hook(self, at: int, module: torch.nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or not (module.training or torch.is_grad_enabled()):
            return
        if self._usual is None or not (self._bad or at in self._usual):
            self._shield.run("trace", self._look, at, output)

    @torch.no_grad()
    def _look(self, at: int, output: Any) -> None:
        self._calls += 1
        for tensor in _tensors(output):
            peak = torch.linalg.vector_norm(tensor.detach(), ord=torch.inf)
            if peak.device.type == "cpu" or self._usual is None:
                if not isfinite(peak.item()):
                    self._bad[at] = None
                continue
            call = self._calls * len(self._names) + at
            seen = torch.where(torch.isfinite(peak), _NEVER, call)
            known = self._flags.get(peak.device)
            self._flags[peak.device] = seen if known is None else torch.minimum(known, seen)


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        local = output.to_local() if isinstance(output, DTensor) else output
        if local.numel() and (local.is_floating_point() or local.is_complex()):
            yield local
    elif isinstance(output, Mapping):
        yield from _tensors(tuple(output.values()))
    elif isinstance(output, (tuple, list)):
        for item in output:
            yield from _tensors(item)


def _bare(name: str) -> str:
    """A module's name without what wrappers put into it.

    >>> _bare("module._orig_mod.blocks.0"), _bare("blocks.0._checkpoint_wrapped_module")
    ('blocks.0', 'blocks.0')
    """
    return _WRAPPERS.sub("", name.removeprefix("module.")).rstrip(".")
