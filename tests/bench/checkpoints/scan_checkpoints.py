"""How long a scan takes: 1,000 checkpoints of 64 files on a local disk. Target: 1 s.

python tests/bench/checkpoints/scan_checkpoints.py [FOLDER]
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import fsspec

from orchestrator import wire
from orchestrator.checkpoints import dcp, deepspeed, huggingface

CHECKPOINTS, FILES, ROUNDS = 1000, 64, 5


def lay(root: Path, folder: str, names: list[str], special: dict[str, str]) -> None:
    """One checkpoint of FILES files, `special` ones with their text."""
    (root / folder).mkdir()
    for name in names[: FILES - len(special)]:
        (root / folder / name).write_bytes(b"12345678")
    for name, text in special.items():
        (root / folder / name).write_text(text)


def lay_dcp(root: Path, step: int) -> None:
    names = [f"__{rank}_0.distcp" for rank in range(FILES)]
    sizes = dict.fromkeys(names[: FILES - 2], 8) | {".metadata": 1}
    marker = {"step": step, "attempt": 1, "world_size": FILES - 2, "time": 1.0, "finite": True, "files": sizes}
    lay(root, f"step-{step}", names, {".metadata": "x", wire.COMPLETE: json.dumps(marker)})


def lay_huggingface(root: Path, step: int) -> None:
    state = {"global_step": step, "log_history": [{"step": at, "loss": 2.0, "lr": 1e-4} for at in range(100)]}
    special = {"model.safetensors": "x", "optimizer.pt": "x", "trainer_state.json": json.dumps(state)}
    lay(root, f"checkpoint-{step}", [f"rng_state_{rank}.pth" for rank in range(FILES)], special)


def lay_deepspeed(root: Path, step: int) -> None:
    names = [f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(FILES)]
    lay(root, f"global_step{step}", names, {"mp_rank_00_model_states.pt": "x"})


def main(folder: str | None) -> None:
    fs = fsspec.filesystem("file")
    for layout, lay_one in ((dcp, lay_dcp), (huggingface, lay_huggingface), (deepspeed, lay_deepspeed)):
        with tempfile.TemporaryDirectory(dir=folder) as root:
            for step in range(1, CHECKPOINTS + 1):
                lay_one(Path(root), step)
            seconds, cpu = [], []
            for _ in range(ROUNDS):
                start, used = time.perf_counter(), time.process_time()
                found = layout.scan(fs, root)
                seconds.append(time.perf_counter() - start)
                cpu.append(time.process_time() - used)
            complete = sum(each.complete for each in found)
        name = layout.__name__.rpartition(".")[2]
        print(f"{name:12} {complete} complete of {CHECKPOINTS} x {FILES} files: best {min(seconds):.3f} s, "
              f"worst {max(seconds):.3f} s, processor {min(cpu):.3f} s")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
