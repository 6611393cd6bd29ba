"""How long the cheap verification of real DCP checkpoints takes, and how fast digests are taken.

python tests/bench/checkpoints/verify_checkpoints.py
"""

import os
import tempfile
import time
import warnings
from pathlib import Path

import fsspec
import torch
import torch.distributed.checkpoint as dist_cp

from orchestrator.checkpoints import check, dcp
from orchestrator.checkpoints._digest import ALGORITHMS, write_digests
from orchestrator.errors import ConfigError

CHECKPOINTS, TENSORS = 200, 1000
BIG = 256 << 20


def processor() -> float:
    """Processor seconds of this process and its children."""
    return sum(os.times()[:4])


def main() -> None:
    fs = fsspec.filesystem("file")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as root:
        state = {"model": {str(n): torch.zeros(4) for n in range(TENSORS)}, "optimizer": {"m": torch.zeros(4)}}
        dist_cp.save(state, checkpoint_id=f"{root}/step-0", no_dist=True)
        files = {path.name: path.read_bytes() for path in Path(root, "step-0").iterdir()}
        for step in range(1, CHECKPOINTS):
            Path(root, f"step-{step}").mkdir()
            for name, data in files.items():
                Path(root, f"step-{step}", name).write_bytes(data)
        found = dcp.scan(fs, root)
        start, used = time.perf_counter(), processor()
        checked = check(dcp, fs, found)
        seconds, used = time.perf_counter() - start, processor() - used
        whole, size = sum(each.complete for each in checked), len(files[".metadata"])
        print(f"verify: {whole} whole of {len(found)}, metadata of {size} bytes each")
        print(f"verify: {seconds:.3f} s, processor {used:.3f} s")
        start = time.perf_counter()
        dcp.verify(fs, found[0].path)
        print(f"verify: one alone {time.perf_counter() - start:.3f} s")
    with tempfile.TemporaryDirectory() as root:
        Path(root, "data").write_bytes(bytes(BIG))
        for algorithm in ALGORITHMS:
            try:
                start = time.perf_counter()
                write_digests(fs, root, algorithm)
                print(f"digests: {algorithm} {BIG / (time.perf_counter() - start) / 1e9:.1f} GB/s")
            except ConfigError as error:
                print(f"digests: {algorithm}: {error}")


if __name__ == "__main__":
    main()
