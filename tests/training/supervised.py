"""One attempt of a run as a supervisor would lay it out, and what its trainer wrote."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator import wire
from orchestrator.core.policy import Policy
from orchestrator.core.schedule import plan_of
from orchestrator.training.hook import attach
from orchestrator.training.run import Run

ATTACHED = "ORCHESTRATE_ATTACHED"


class Attempt:
    """The folder of attempt 1 and the supervisor's side of its files."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir, self.folder = run_dir, wire.attempt_dir(run_dir, 1)
        self.folder.mkdir(parents=True)

    def plan(self, policy: Policy) -> None:
        wire.write_json(self.folder / wire.PLAN, plan_of(policy))

    def direct(self, **levels: Any) -> None:
        wire.write_json(self.folder / wire.DIRECTIVE, {"epoch": 1, "attempt": 1, **levels})

    def lines(self, rank: int = 0) -> list[dict[str, Any]]:
        text = wire.telemetry_file(self.run_dir, 1, rank).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line]

    def messages(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["type"] == kind]


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempt]:
    for name in (wire.RESUME, wire.QUARANTINE, "ORCHESTRATE_CHECKPOINTS", "RANK", "WORLD_SIZE", ATTACHED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(wire.RUN_DIR, str(tmp_path))
    monkeypatch.setenv(wire.ATTEMPT, "1")
    # Directives are looked for at every step, so that no test has to wait for a clock.
    monkeypatch.setattr("orchestrator.training.inbox.POLL_SECONDS", 0.0)
    monkeypatch.setattr("orchestrator.training.solo.HOLD_SECONDS", 0.0)
    yield Attempt(tmp_path)
    os.environ.pop(ATTACHED, None)


class Task:
    """A linear model on a fixed batch, its gradients set by hand or by `learn`."""

    def __init__(self, lr: float = 0.1, kind: Callable[..., torch.optim.Optimizer] = torch.optim.SGD, **more: Any):
        torch.manual_seed(0)
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = kind(self.model.parameters(), lr=lr, **more)
        self.batch = torch.randn(8, 4)

    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])

    def learn(self, times: float = 1.0) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.model(self.batch).pow(2).mean() * times
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@pytest.fixture
def task() -> Task:
    return Task()


def join(task: Task, **options: Any) -> Run:
    return attach(task.optimizer, model=task.model, **options)
