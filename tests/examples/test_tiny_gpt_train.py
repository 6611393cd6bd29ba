"""The example trains, the same way for the same seed, alone and under a hook, and goes on where it was."""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from examples.tiny_gpt import train
from examples.tiny_gpt.model import GPT
from orchestrator import wire
from orchestrator.core.policy import Checkpoints, Clip, Policy, Schedule, Warmup
from orchestrator.core.schedule import plan_of
from orchestrator.core.units import Cadence

Trainer = Callable[..., list[float]]


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """Train in this process as one attempt and return the losses by step."""
    threads = torch.get_num_threads()
    for name in ("RANK", "WORLD_SIZE", wire.QUARANTINE, "ORCHESTRATE_CHECKPOINTS", "ORCHESTRATE_ATTACHED"):
        monkeypatch.delenv(name, raising=False)

    def run(folder: str, *arguments: str, attempt: int = 1, resume: str = "") -> list[float]:
        path = wire.attempt_dir(tmp_path / folder, attempt)
        path.mkdir(parents=True)
        policy = Policy(
            schedule=Schedule(peak=3e-3, warmup=Warmup(for_=10)),
            clip=Clip(max_norm=1.0),
            checkpoints=Checkpoints(every=Cadence(8.0, "steps")),
        )
        wire.write_json(path / wire.PLAN, plan_of(policy))
        environment = {wire.RUN_DIR: str(tmp_path / folder), wire.ATTEMPT: str(attempt), wire.RESUME: resume}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["train", "--steps=24", "--eval-every=12", *arguments])
        train.main()
        lines = wire.telemetry_file(tmp_path / folder, attempt).read_text().splitlines()
        return [wire.number(m["loss"]) or 0.0 for m in map(json.loads, lines) if m["type"] == "step"]

    yield run
    torch.set_num_threads(threads)
    os.environ.pop("ORCHESTRATE_ATTACHED", None)


def test_the_model_has_the_size_it_says() -> None:
    assert sum(p.numel() for p in GPT().parameters()) == 136_960


def test_the_model_does_not_see_what_follows() -> None:
    torch.manual_seed(0)
    model, text = GPT(), torch.randint(0, 256, (2, 64))
    model.head.weight.grad = None
    embedded = model.bytes(text).detach().requires_grad_()
    out = model.blocks(embedded + model.places(torch.arange(64)))
    out[:, 20].sum().backward()
    assert embedded.grad[:, 21:].abs().max() == 0
    assert embedded.grad[:, :21].abs().max() > 0


def test_it_learns_and_is_the_same_for_the_same_seed(losses: Trainer) -> None:
    one, same, other = losses("one"), losses("same"), losses("other", "--seed=1")
    assert one == same != other
    assert one[0] == pytest.approx(math.log(256), abs=0.4)
    assert one[-1] < one[0] - 1.5


def test_it_goes_on_from_a_checkpoint_as_if_never_stopped(losses: Trainer, tmp_path: Path) -> None:
    whole = losses("run")
    assert losses("run", attempt=2, resume=str(tmp_path / "run/checkpoints/step-8")) == whole[8:]


def test_two_ranks_train_as_one(losses: Trainer, tmp_path: Path) -> None:
    alone = losses("alone", "--steps=12")
    path = wire.attempt_dir(tmp_path / "both", 1)
    path.mkdir(parents=True)
    (path / wire.PLAN).write_bytes((wire.attempt_dir(tmp_path / "alone", 1) / wire.PLAN).read_bytes())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATE_")}
    environment |= {wire.RUN_DIR: str(tmp_path / "both"), wire.ATTEMPT: "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "examples.tiny_gpt.train"]
    done = subprocess.run(
        [sys.executable, *command, "--steps=12"], env=environment, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "step 12 loss" in done.stdout
    lines = [json.loads(line) for line in wire.telemetry_file(tmp_path / "both", 1).read_text().splitlines()]
    both = [line["loss"] for line in lines if line["type"] == "step"]
    assert both == pytest.approx(alone, rel=1e-4)
    assert lines[-1]["status"] == "completed"
    assert [line["name"] for line in lines if line["type"] == "eval"] == ["val"]


def test_by_hand_it_just_trains(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(wire.RUN_DIR, raising=False)
    monkeypatch.setattr(sys, "argv", ["train", "--steps=4"])
    train.main()
    assert re.fullmatch(r"step 4 loss \d\.\d{4} val \d\.\d{4}\n", capsys.readouterr().out)
