"""How much slower the example with two ranks is when it is supervised: `python -m tests.bench.hook.bench_example`.

Whole runs in turns, bare under torchrun and supervised, norm, clip and supervisor included. A step's time is the
median of the run's (evaluations and saves are few). Told are the pairs' median difference, and that of the least ones:
what else runs on the machine only ever adds.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STEPS, TURNS = 600, 8


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
    shares = [ours / bare - 1.0 for ours, bare in zip(took["supervised"], took["bare"], strict=True)]
    told: dict[str, object] = {name: [round(value, 2) for value in values] for name, values in took.items()}
    told["the pairs' median, % slower"] = round(100 * statistics.median(shares), 2)
    told["the least of each, % slower"] = round(100 * (min(took["supervised"]) / min(took["bare"]) - 1.0), 2)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
