"""How much slower the example with two ranks is when it is supervised: `python -m tests.bench.hook.bench_example`.

Whole runs in turns, bare under torchrun and supervised, norm, clip and supervisor included. A step's time is the
median of the run's (evaluations and saves are few); the pairs' median difference is told.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STEPS, TURNS = 400, 5


def paced(folder: Path, command: list[str]) -> float:
    """Milliseconds a step."""
    told = folder / "paced.json"
    environ = os.environ | {"PACED": str(told), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    return statistics.median(json.loads(told.read_text(encoding="utf-8"))) * 1e3


def main() -> None:
    module = ["-m", "tests.bench.hook.paced", f"--steps={STEPS}", "--switch=200"]
    bare = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *module]
    took: dict[str, list[float]] = {"bare": [], "supervised": []}
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            words = [f"run.dir={folder / 'run'}", "faults=none", f"job.command={module}"]
            ours = [sys.executable, "-m", "orchestrator.cli", "run", "conf=pretrain.yaml", *words]
            took["bare"].append(paced(folder, bare))
            took["supervised"].append(paced(folder, ours))
    found = {f"{name}, ms a step": round(statistics.median(values), 3) for name, values in took.items()}
    shares = [ours / bare - 1.0 for ours, bare in zip(took["supervised"], took["bare"], strict=True)]
    print(json.dumps({**found, "slower, %": [round(100 * share, 2) for share in shares],
                      "median, %": round(100 * statistics.median(shares), 2)}, indent=1))  # fmt: skip


if __name__ == "__main__":
    main()
