"""Two real ranks under torchrun: they act as one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import wire
from orchestrator.core.policy import Checkpoints, Clip, Policy
from orchestrator.core.schedule import plan_of
from orchestrator.core.units import Cadence

WORKER = Path(__file__).with_name("two_ranks.py")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    for attempt in (1, 2, 3, 4):
        folder = wire.attempt_dir(path, attempt)
        folder.mkdir(parents=True)
        saving = Checkpoints(every=Cadence(25.0, "steps")) if attempt == 4 else Checkpoints()
        wire.write_json(folder / wire.PLAN, plan_of(Policy(clip=Clip(max_norm=0.5), checkpoints=saving)))
    wire.write_json(
        wire.attempt_dir(path, 1) / wire.DIRECTIVE, {"epoch": 1, "attempt": 1, "cuts": [[0.5, 0, None, None]]}
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATE_")}
    environment |= {wire.RUN_DIR: str(path), wire.ATTEMPT: "1", wire.RESUME: "", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, str(WORKER), str(path)], env=environment, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return path


def seen(run_dir: Path, part: str) -> list[Any]:
    return [json.loads((run_dir / f"rank{rank}.json").read_text())[part] for rank in (0, 1)]


def lines(run_dir: Path, rank: int, attempt: int = 1) -> list[dict[str, Any]]:
    text = wire.telemetry_file(run_dir, attempt, rank).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_ranks_save_and_stop_at_the_same_step(run_dir: Path) -> None:
    first, second = seen(run_dir, "replicated")
    assert first["saved"] == second["saved"] == [6, 13]  # asked for at 5 and 12: orders reach all a step later
    assert first["last"] == second["last"] == 13
    assert first["weights"] == second["weights"]
    assert lines(run_dir, 0)[-1]["status"] == "stopped"
    for step in (6, 13):
        marker = wire.read_json(run_dir / "checkpoints" / f"step-{step}" / wire.COMPLETE)
        assert (marker["world_size"], marker["finite"]) == (2, True)


def test_rank_0_tells_of_both(run_dir: Path) -> None:
    first, *rest = lines(run_dir, 0)
    steps = [line for line in rest if line["type"] == "step"]
    assert first["world_size"] == 2
    assert [line["step"] for line in steps] == list(range(1, steps[-1]["step"] + 1))
    step = steps[0]
    assert len(step["ranks"]["loss"]) == 2
    assert step["loss"] == pytest.approx(sum(step["ranks"]["loss"]) / 2)
    assert step["lr"] == pytest.approx(0.05)
    assert (step["clip"], step["nonfinite"]) == (0.5, 0)
    assert step["shards"] == ["both", "of-0-0", "of-1-0"]
    assert steps[10]["shards"] == ["both", "of-0-1", "of-1-1"]


def test_the_other_rank_writes_only_what_is_exceptional(run_dir: Path) -> None:
    written = lines(run_dir, 1)
    assert [line["name"] for line in written if line["type"] == "shard"] == ["both", "of-1-0", "of-1-1"]
    assert [(line["step"], line["loss"]) for line in written if line["type"] == "step"] == [(8, "nan")]


def test_a_step_that_is_not_finite_is_skipped_by_both(run_dir: Path) -> None:
    for rank in seen(run_dir, "replicated"):
        assert rank["frozen"]["before"] == rank["frozen"]["after"]
    step = next(line for line in lines(run_dir, 0) if line.get("step") == 8 and line["type"] == "step")
    assert (step["loss"], step["grad_norm"], step["skipped"], step["nonfinite"]) == ("nan", "nan", True, 1)
    assert step["ranks"]["loss"][1] == "nan"
    assert step["ranks"]["loss"][0] > 0


def test_sharded_gradients_have_one_norm_and_one_verdict(run_dir: Path) -> None:
    for rank in seen(run_dir, "sharded"):
        assert rank["frozen"]["before"] == rank["frozen"]["after"]
    steps = [line for line in lines(run_dir, 0, attempt=2) if line["type"] == "step"]
    assert [line.get("skipped", False) for line in steps] == [False, True, False]
    assert "grad_norm" not in steps[0]["ranks"]


def test_sharded_state_comes_back_as_it_was(run_dir: Path) -> None:
    for rank in seen(run_dir, "sharded"):
        assert (rank["restored"], rank["same"], rank["same_moments"]) == (3, True, True)


def test_what_is_written_in_the_background_is_told_once_all_ranks_have(run_dir: Path) -> None:
    told = [(line["step"], line["state"]) for line in lines(run_dir, 0, attempt=2) if line["type"] == "checkpoint"]
    assert told == [(step, state) for step in (2, 3, 4) for state in ("started", "saved")]


def test_quick_steps_share_an_exchange_and_lose_nothing_by_it(run_dir: Path) -> None:
    first, second = seen(run_dir, "quick")
    assert first["saved"] == second["saved"] == [25, 50]
    assert first["gathered"] == second["gathered"] <= 30
    steps = [line for line in lines(run_dir, 0, attempt=4) if line["type"] == "step"]
    assert [line["ranks"]["loss"] for line in steps] == [[step, step + 1] for step in range(1, 61)]
