"""Every fault of the example through the real supervisor: `python tests/e2e/faults.py [--seeds 0 1 2] [--faults ...]`.

Each run is a real torchrun job of two ranks. Prints a line a run and exits 1 when one did not end as it must.
The short form (600 steps) serves; `--steps 1000` is the main job's length.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent.parent
Status = dict[str, Any]


class Run(NamedTuple):
    """How a supervised run ended."""

    code: int
    status: Status
    seconds: float
    folder: Path

    def verbs(self, cls: str) -> list[str]:
        """What was done about the incidents of a class."""
        return [a["verb"] for i in self.status["incidents"] if i["class"] == cls for a in i["actions"]]

    def classes(self) -> set[str]:
        """The classes seen above `info`."""
        return {i["class"] for i in self.status["incidents"] if i["severity"] != "info"}


def supervise(folder: Path, fault: str, seed: int, steps: int, *more: str) -> Run:
    """One run of the example, to its end."""
    began = time.monotonic()
    words = ["run", "conf=pretrain.yaml", f"run.dir={folder}", f"faults={fault}", f"seed={seed}", f"steps={steps}"]
    done = command(*words, *more, timeout=600)
    status = json.loads(command("status", str(folder), "--json").stdout)
    return Run(done.returncode, status, time.monotonic() - began, folder)


def command(*words: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
    """`orchestrate` of this checkout."""
    return subprocess.run(
        [sys.executable, "-m", "orchestrator.cli", *words], cwd=ROOT, capture_output=True, text=True, timeout=timeout,
        check=False,
    )  # fmt: skip


def left(folder: Path) -> list[int]:
    """Processes that still speak of a run directory."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        told = " ".join(process.info["cmdline"] or ()) + (process.info["environ"] or {}).get("ORCHESTRATE_RUN_DIR", "")
        if str(folder) in told:
            found.append(process.pid)
    return found


def quiet(run: Run) -> bool:
    """Nothing above low, no action but a record."""
    low = all(i["severity"] in ("info", "low") for i in run.status["incidents"])
    verbs = {a["verb"] for i in run.status["incidents"] for a in i["actions"]}
    return run.code == 0 and low and verbs <= {"record"} and run.status["attempt"] == 1


def recorded(run: Run) -> bool:
    """The batch is recorded, whatever its severity, and nothing else is done."""
    done = [(i["class"], [a["verb"] for a in i["actions"]]) for i in run.status["incidents"]]
    return run.code == 0 and done == [("isolated", ["record"])] and run.status["attempt"] == 1


def saved(run: Run) -> bool:
    """The bad batch recorded, the bad shard rolled back, cut, left out; the run completed."""
    level = [i for i in run.status["incidents"] if i["class"] == "persistent"]
    target = [a["args"]["to_step"] for i in level for a in i["actions"] if a["verb"] == "rollback"]
    return (
        run.code == 0
        and set(run.verbs("isolated")) <= {"record"}
        and {"stop", "rollback", "lr", "quarantine", "relaunch"} <= set(run.verbs("persistent"))
        and all(step < level[0]["detected_step"] for step in target)
        and run.status["attempt"] == 2
        and len(run.status["quarantine"]) > 0
    )


def rate_mended(run: Run) -> bool:
    """Rolled back with a smaller rate until it is healthy; confirmed in the metrics."""
    cuts = [a for i in run.status["incidents"] for a in i["actions"] if a["verb"] == "lr"]
    return run.code == 0 and "rollback" in run.verbs("persistent") and all(a["outcome"] == "confirmed" for a in cuts)


def skipped(run: Run) -> bool:
    """The update was dropped; no step lost, no relaunch."""
    return run.code == 0 and run.verbs("nonfinite") == ["skip"] and run.status["attempt"] == 1


def rolled_back(run: Run) -> bool:
    """NaN weights are left behind."""
    return run.code == 0 and "rollback" in run.verbs("nonfinite") and run.status["attempt"] == 2


def named(run: Run) -> bool:
    """The odd rank has its number."""
    return run.code == 0 and [i["rank"] for i in run.status["incidents"] if i["class"] == "rank_local"] == [1]


def relaunched(cls: str) -> Callable[[Run], bool]:
    """One failure, one relaunch from the newest complete checkpoint."""

    def check(run: Run) -> bool:
        found = (run.folder / "attempts" / "0001" / "stacks").glob("*.txt")
        stacks = [path for path in found if path.stem.isdigit()]  # py-spy, where it is, adds the launcher's own
        kept = cls != "hang" or (len(stacks) == 2 and all(path.stat().st_size for path in stacks))
        return run.code == 0 and "relaunch" in run.verbs(cls) and run.status["attempt"] == 2 and kept

    return check


def held(run: Run) -> bool:
    """A person is called."""
    return run.code == 3 and run.status["state"] == "held"


MUST: dict[str, Callable[[Run], bool]] = {
    "none": quiet, "bad_batch": recorded, "default": saved, "bad_shard": saved, "lr_too_high": rate_mended,
    "nan": skipped, "nan_weights": rolled_back, "bad_rank": named, "crash": relaunched("crash"),
    "hang": relaunched("hang"),
    "crash_again": held, "nan_again": held,
}  # fmt: skip


def main() -> int:
    """Every named fault with every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--faults", nargs="+", default=list(MUST), choices=list(MUST))
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for fault in options.faults:
            for seed in options.seeds:
                run = supervise(Path(folder) / f"{fault}-{seed}", fault, seed, options.steps)
                remaining = left(run.folder)
                right = MUST[fault](run) and not remaining
                wrong += not right
                told = [
                    f"{i['class']}@{i['onset_step']}({i['severity']}):{'+'.join(a['verb'] for a in i['actions'])}"
                    for i in run.status["incidents"]
                ]
                val = run.status["eval"].get("val")
                print(
                    f"{'ok  ' if right else 'FAIL'} {fault} seed {seed}: exit {run.code}, {run.seconds:.0f} s, "
                    f"attempt {run.status['attempt']}, step {run.status['step']}, val {val} {' '.join(told)}"
                    + (f" LEFT {remaining}" if remaining else ""), flush=True,
                )  # fmt: skip
    print(f"{wrong} runs did not end as they must")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
