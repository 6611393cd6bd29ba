"""Whole checkpoints of every layout as bytes, so that each can be laid on any file system and damaged.

Torch and DCP files come from torch itself; safetensors are written from their format; folders follow the
rules of the frameworks that write them.
"""

import io
import json
import struct
import tempfile
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.distributed.checkpoint as dist_cp

from orchestrator import wire
from orchestrator.checkpoints import (
    composer,
    dcp,
    deepspeed,
    huggingface,
    lightning,
    megatron,
    nanotron,
    olmo,
    torchfile,
)

Bytes = dict[str, bytes]


class Kit(NamedTuple):
    """How one layout looks. Names are relative to the checkpoint, `base(step)` is the checkpoint in its root.

    `data` holds tensors, `last` is written last, `rank` belongs to one rank of several, `pointer` is the file in
    the root and its text for a step. A file layout has "" for its only file.
    """

    name: str
    layout: ModuleType
    base: Callable[[int], str]
    files: Callable[[int], Bytes]
    data: str
    last: str = ""
    rank: str = ""
    pointer: tuple[str, Callable[[int], str]] | None = None
    marks: bool = False
    missing: tuple[str, ...] = ()


def torch_bytes(value: Any) -> bytes:
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def safetensors_bytes(sizes: dict[str, int]) -> bytes:
    header, at = {}, 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(range(256)) * (at // 256) + bytes(at % 256)


@lru_cache
def dcp_bytes(*parts: str) -> Bytes:
    """A DCP folder of two data files, with one tensor for each part."""
    state = {part: {"x": torch.arange(256.0)} for part in parts}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = dist_cp.FileSystemWriter(folder, single_file_per_rank=False)
        dist_cp.save(state, storage_writer=writer, no_dist=True)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def marked(files: Bytes, step: int, **more: Any) -> Bytes:
    """The files with the hook's marker."""
    sizes = {name: len(data) for name, data in files.items()}
    marker = {"step": step, "attempt": 1, "world_size": 1, "time": 1.0, "finite": True, "files": sizes, **more}
    return {**files, wire.COMPLETE: json.dumps(marker).encode()}


def under(prefix: str, files: Bytes) -> Bytes:
    return {prefix + name: data for name, data in files.items()}


@lru_cache
def _trainer_state(**more: Any) -> bytes:
    return torch_bytes({"optimizer": {"m": torch.zeros(64)}, "lr_scheduler": {}, "rng": 1, **more})


_FULL = ("model", "optimizer", "lr_scheduler", "rng_state", "dataloader")
_LARGE = {"a": 2048, "b": 2048}


def _hf(step: int) -> Bytes:
    return {
        "config.json": b"{}",
        "model.safetensors": safetensors_bytes(_LARGE),
        "optimizer.pt": _trainer_state(),
        "scheduler.pt": _trainer_state(),
        "rng_state.pth": _trainer_state(),
        "trainer_state.json": json.dumps({"global_step": step, "log_history": [{"loss": float("nan")}]}).encode(),
    }


def _hf_sharded(step: int) -> Bytes:
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    files = {name: data for name, data in _hf(step).items() if name not in ("model.safetensors", "rng_state.pth")}
    index = {"weight_map": {"a": shards[0], "b": shards[1]}}
    return {
        **files,
        **{name: safetensors_bytes(_LARGE) for name in shards},
        **{f"rng_state_{rank}.pth": _trainer_state() for rank in range(3)},
        "model.safetensors.index.json": json.dumps(index).encode(),
    }


def _hf_fsdp(step: int) -> Bytes:
    files = {name: data for name, data in _hf(step).items() if name not in ("model.safetensors", "optimizer.pt")}
    return {**files, **under("pytorch_model_fsdp_0/", dcp_bytes("model")), **under("optimizer_0/", dcp_bytes("optim"))}


def _deepspeed(step: int) -> Bytes:
    model = _trainer_state(dp_world_size=3, mp_world_size=1, global_steps=step)
    ranks = {f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": _trainer_state() for rank in range(3)}
    return {"mp_rank_00_model_states.pt": model, **ranks}


def _megatron(step: int) -> Bytes:
    return {
        **dcp_bytes("model", "optimizer", "rng_state"),
        "common.pt": _trainer_state(),
        "metadata.json": b'{"sharded_backend": "torch_dist"}',
    }


def _megatron_legacy(step: int) -> Bytes:
    return {
        f"mp_rank_0{t}_00{p}/{name}.pt": _trainer_state()
        for t in range(2)
        for p in range(2)
        for name in ("model_optim_rng", "distrib_optim")
    }


def _olmo(step: int) -> Bytes:
    return {
        **{f"train/rank{rank}.pt": _trainer_state() for rank in range(3)},
        **under("model_and_optim/", dcp_bytes("model", "optim")),
        ".metadata.json": b'{"version": "3"}',
    }


def _nanotron(step: int) -> Bytes:
    weights = "model/decoder/0/model_weight_pp-rank-0-of-1_tp-rank-{}-of-2.safetensors"
    return {
        "config.yaml": b"general: {}",
        **{weights.format(rank): safetensors_bytes(_LARGE) for rank in range(2)},
        **{f"optimizer/optimizer_pp-0-of-1_dp-{r}-of-3_tp-0-of-1_exp-0-of-1.pt": _trainer_state() for r in range(3)},
        "lr_scheduler/lr_scheduler.pt": _trainer_state(),
        "checkpoint_metadata.json": json.dumps({"metas": {"last_train_step": step}}).encode(),
        "model_config.json": b"{}",
    }


def _lightning(step: int) -> bytes:
    return torch_bytes({"global_step": step, "state_dict": {"w": torch.arange(256.0)}, "optimizer_states": [],
                        "lr_schedulers": [], "loops": {}})  # fmt: skip


def _plain(step: int) -> bytes:
    return torch_bytes({"iter_num": step, "model": {"w": torch.arange(256.0)}, "optimizer": {}, "scheduler": {},
                        "rng": 1})  # fmt: skip


KITS = (
    Kit("dcp", dcp, "step-{}".format, lambda step: marked(dcp_bytes(*_FULL), step), "__0_1.distcp", ".metadata",
        "__0_1.distcp", marks=True),
    Kit("dcp of another writer", dcp, "step-{}".format, lambda step: dcp_bytes("model", "optimizer"), "__0_1.distcp",
        ".metadata", "__0_1.distcp", missing=("scheduler", "rng", "data position")),
    Kit("huggingface", huggingface, "checkpoint-{}".format, _hf, "model.safetensors", "trainer_state.json", marks=True),
    Kit("huggingface in shards", huggingface, "checkpoint-{}".format, _hf_sharded, "model-00002-of-00002.safetensors",
        "trainer_state.json", "rng_state_1.pth"),
    Kit("huggingface with FSDP", huggingface, "checkpoint-{}".format, _hf_fsdp, "pytorch_model_fsdp_0/__0_0.distcp",
        "trainer_state.json"),
    Kit("megatron", megatron, "iter_{:07d}".format, _megatron, "__0_1.distcp", ".metadata", "__0_1.distcp",
        ("latest_checkpointed_iteration.txt", str), marks=True),
    Kit("megatron, legacy", megatron, "iter_{:07d}".format, _megatron_legacy, "mp_rank_01_000/model_optim_rng.pt",
        "mp_rank_01_001/model_optim_rng.pt", "mp_rank_01_001/distrib_optim.pt",
        ("latest_checkpointed_iteration.txt", str)),
    Kit("deepspeed", deepspeed, "global_step{}".format, _deepspeed, "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
        "mp_rank_00_model_states.pt", "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt",
        ("latest", "global_step{}".format), marks=True),
    Kit("olmo", olmo, "step{}".format, _olmo, "model_and_optim/__0_0.distcp", ".metadata.json", "train/rank1.pt",
        marks=True),
    Kit("nanotron", nanotron, "{}".format, _nanotron,
        "model/decoder/0/model_weight_pp-rank-0-of-1_tp-rank-1-of-2.safetensors", "model_config.json",
        "optimizer/optimizer_pp-0-of-1_dp-2-of-3_tp-0-of-1_exp-0-of-1.pt", ("latest.txt", str), marks=True,
        missing=("rng",)),
    Kit("lightning", lightning, "epoch=0-step={}.ckpt".format, lambda step: {"": _lightning(step)}, ""),
    Kit("lightning, sharded", lightning, "epoch=0-step={}.ckpt".format,
        lambda step: {**dcp_bytes("state_dict", "optimizer"), "meta.pt": _lightning(step)}, "__0_1.distcp", "meta.pt",
        "__0_1.distcp"),
    Kit("torchfile", torchfile, "ckpt-{}.pt".format, lambda step: {"": _plain(step)}, ""),
    Kit("torchfile, litgpt", torchfile, "step-{:08d}".format, lambda step: {"lit_model.pth": _plain(step)},
        "lit_model.pth"),
    Kit("composer", composer, "ep0-ba{}-rank0.pt".format, lambda step: {"": _plain(step)}, ""),
    Kit("composer, sharded", composer, "ep0-ba{}".format, lambda step: dcp_bytes("state", "optimizers", "schedulers",
        "rng"), "__0_1.distcp", ".metadata", "__0_1.distcp"),
)  # fmt: skip


def lay(fs: Any, path: str, files: Bytes) -> None:
    """Put the files of one checkpoint at its path; the name "" is the path itself."""
    for name, data in files.items():
        target = f"{path}/{name}" if name else path
        fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        fs.pipe_file(target, data)
