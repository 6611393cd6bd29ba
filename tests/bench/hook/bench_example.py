"""How much slower the example with two ranks is when it is supervised: `python -m tests.bench.hook.bench_example`.

Whole runs in turns, the order changing: bare under torchrun; bare with torch's own `clip_grad_norm_` in every step, as
a loop without us would have; supervised, with norm, clip and supervisor. A step's time is the median of the run's
(evaluations and saves are few). Told are the medians of the differences within a turn.
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
MODULE = ["-m", "tests.bench.hook.paced", f"--steps={STEPS}", "--switch=200"]


def paced(folder: Path, command: list[str], clip: str = "") -> float:
    """Milliseconds a step."""
    told = folder / "paced.json"
    environ = os.environ | {"PACED": str(told), "CLIP": clip, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    return statistics.median(json.loads(told.read_text(encoding="utf-8"))) * 1e3


def bare(folder: Path, clip: str = "") -> float:
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return paced(folder, [sys.executable, *ranks, *MODULE], clip)


def clipped(folder: Path) -> float:
    return bare(folder, clip="1.0")


def supervised(folder: Path) -> float:
    words = [f"run.dir={folder / 'run'}", "faults=none", f"job.command={MODULE}"]
    return paced(folder, [sys.executable, "-m", "orchestrator.cli", "run", "conf=pretrain.yaml", *words])


def main() -> None:
    modes = (bare, clipped, supervised)
    took: dict[str, list[float]] = {mode.__name__: [] for mode in modes}
    for turn in range(TURNS):
        for mode in modes if turn % 2 else reversed(modes):
            with tempfile.TemporaryDirectory() as name:
                took[mode.__name__].append(mode(Path(name)))
    told: dict[str, object] = {name: [round(value, 2) for value in values] for name, values in took.items()}
    for name in ("bare", "clipped"):
        shares = [ours / theirs - 1.0 for ours, theirs in zip(took["supervised"], took[name], strict=True)]
        told[f"% slower than {name}"] = round(100 * statistics.median(shares), 2)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
