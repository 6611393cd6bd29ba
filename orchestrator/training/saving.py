"""Checkpoints in PyTorch's distributed format, complete only when their marker stands in them.

A checkpoint is written aside and renamed, so one that was complete is never lost before the new one is.
Tensors keep the names the format gives nested state ("model.blocks.0.weight"); everything else is one entry.
"""

import warnings
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from orchestrator import wire
from orchestrator.training.target import Target, target

REST = "orchestrate.rest"
_TENSOR = "orchestrate.tensor"

Failed = (OSError, CheckpointException)


def alone() -> bool:
    """Whether this process trains without others."""
    return not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def write(path: str | Path, state: Mapping[str, Any], marker: dict[str, Any]) -> dict[str, Any]:
    """Write `state` as the checkpoint `path`, a folder or a URL, and return its marker; collective on all ranks.

    `marker` is completed by the time and by the size of every file. Raises one of `Failed`.
    """
    place = _cleared(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        save(_dcp(state), storage_writer=place.writer(), planner=_planner(), no_dist=alone())
    return place.complete(marker) if _first() else marker


class Pending:
    """A checkpoint that is being written while training goes on; it is none before `finish` returned its marker."""

    def __init__(self, place: Target, writing: "Future[Any]", marker: dict[str, Any]) -> None:
        self._place, self._writing, self._marker = place, writing, marker

    def done(self) -> bool:
        """Whether nothing is left to wait for."""
        return self._writing.done()

    def finish(self, within: float | None = None) -> dict[str, Any]:
        """Wait so many seconds for the last byte, then set the marker; raises TimeoutError, or one of `Failed`."""
        self._writing.result(timeout=within)
        return self._place.complete(self._marker) if _first() else self._marker


def write_later(path: str | Path, state: Mapping[str, Any], marker: dict[str, Any], group: Any) -> Pending:
    """Copy `state` now and write it in the background; collective on all ranks, which `group` joins on the CPU."""
    place = _cleared(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writing: Any = async_save(
            _dcp(state), storage_writer=place.writer(), planner=_planner(), process_group=group, no_dist=alone()
        )
    return Pending(place, writing, marker)


def joined() -> Any:
    """A group of all ranks for background writes, which must not meet the steps' own exchange; collective."""
    return None if alone() else dist.new_group(backend="gloo")


def _first() -> bool:
    return alone() or dist.get_rank() == 0


def _cleared(path: str | Path) -> Target:
    place = target(path)
    if _first():
        place.clear()
    if not alone():
        dist.barrier()
    return place


def _dcp(state: Mapping[str, Any]) -> dict[str, Any]:
    tensors, rest = _split({name: _state_of(value) for name, value in state.items()})
    return {**tensors, REST: rest}


def _planner() -> DefaultSavePlanner:
    return DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)


def read(path: str | Path, state: dict[str, Any]) -> int:
    """Load a checkpoint, a folder or a URL, into `state`, in place, and return its step; collective on all ranks.

    Raises FileNotFoundError for an incomplete folder, KeyError for a name the checkpoint does not hold.
    """
    place = target(path)
    marker = place.marker()
    if marker is None:
        raise FileNotFoundError(f"{path} is no complete checkpoint: {wire.COMPLETE} is missing")
    for value in state.values():
        if isinstance(value, Optimizer):
            _prime(value)
    own, _ = _split({name: _state_of(value) for name, value in state.items()})
    loaded = _load(place, own)
    for name, value in state.items():
        if name not in loaded:
            raise KeyError(f"{path} holds no {name!r}, only {', '.join(loaded)}")
        if _has_state(value):
            value.load_state_dict(loaded[name])
        else:
            state[name] = loaded[name]
    return int(marker["step"])


def finite(model: Any) -> bool:
    """Whether every weight and buffer of a model is finite; collective where they are sharded."""
    values = [t.detach() for t in model.state_dict().values() if isinstance(t, Tensor)]
    values = [t for t in values if t.is_floating_point() and t.numel()]
    largest: Any = torch.nn.utils.get_total_norm(values, norm_type=float("inf"))
    if isinstance(largest, DTensor):
        largest = largest.full_tensor()
    return bool(torch.isfinite(largest))


def _load(place: Target, own: dict[str, Tensor]) -> dict[str, Any]:
    reader = place.reader()
    target: dict[str, Any] = {REST: None}
    for name, meta in reader.read_metadata().state_dict_metadata.items():
        if isinstance(meta, TensorStorageMetadata):
            # What stands already is filled in place, sharded as it is; an optimizer's first state is made anew.
            target[name] = own[name] if name in own else torch.empty(meta.size, dtype=meta.properties.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        load(target, storage_reader=reader, planner=planner, no_dist=alone())
    joined: dict[str, Any] = _join(target[REST], target)
    return joined


def _has_state(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _state_of(value: Any) -> Any:
    return value.state_dict() if _has_state(value) else value


def _split(state: dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
    tensors: dict[str, Tensor] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            tensors[path] = value.detach()
            return {_TENSOR: path}
        if isinstance(value, Mapping):
            return {key: walk(item, f"{path}.{key}" if path else str(key)) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(walk(item, f"{path}.{index}") for index, item in enumerate(value))
        return value

    return tensors, walk(state, "")


def _join(value: Any, tensors: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {key: _join(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_join(item, tensors) for item in value)
    return value


def _prime(optimizer: Optimizer) -> None:
    """Give an optimizer of sharded parameters its state, so that loading finds how each piece is sharded.

    One step at rate 0 with gradients of 0 makes the state and changes no weight.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or not any(isinstance(p, DTensor) for p in parameters):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, lr in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = lr
