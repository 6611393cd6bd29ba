"""Recordings made for the tests: wire files, CSV, and the journal of a simulated run."""

import json
import math
from collections.abc import Callable
from pathlib import Path

from orchestrator import registry
from orchestrator.store import journal
from orchestrator.store.policy_text import Loaded, load, locate, yaml_dump
from tests.simulation import Job, Trouble, noise

SHORT = (
    "checkpoints.healthy_after=50 steps",
    "checkpoints.margin=5 steps",
    "spikes.persistent.confirm.for=20 steps",
    "limits.quarantine.max_share=10%",
)
Change = Callable[[int, float], object]


def loss(step: int) -> float:
    """A loss that falls and then nearly stands."""
    return 2.2 + 3.0 * math.exp(-step / 400) + noise(step, 0.01)


def messages(change: Change = lambda step, value: value, steps: int = 4000, first: int = 1) -> list[dict[str, object]]:
    """The step messages of a run; `change` gives the loss of a step."""
    return [
        {"type": "step", "step": step, "time": 1e9 + step, "loss": change(step, loss(step)), "grad_norm": 1.0,
         "shards": [f"web-{step // 100:05d}"]}
        for step in range(first, first + steps)
    ]  # fmt: skip


def wire(path: Path, *parts: list[dict[str, object]]) -> Path:
    """A wire file of messages."""
    path.write_text("".join(json.dumps(message) + "\n" for part in parts for message in part))
    return path


def raised(step: int, value: float) -> float:
    """A level that is a fifth higher from step 3001 on."""
    return value * 1.2 if step > 3000 else value


def spiked(step: int, value: float) -> float:
    """One bad batch."""
    return value * 3 if step == 3000 else value


def broken(step: int, value: float) -> object:
    """Three steps that are not finite."""
    return "nan" if 3000 <= step < 3003 else value


def run_of(folder: Path, trouble: Trouble, *overrides: str) -> tuple[Loaded, Job]:
    """A run directory with the journal of a simulated run by `pretrain` with short distances."""
    loaded = load(locate("pretrain"), (*SHORT, *overrides))
    assert loaded.policy is not None
    job = Job(registry.bind(loaded.policy), trouble, 600)
    job.run()
    folder.mkdir(parents=True, exist_ok=True)
    header = {"policy_file": "pretrain", "policy": yaml_dump(loaded.raw), "digest": loaded.digest}
    with journal.Journal(folder / "journal.jsonl", header) as log:
        for fact in job.facts:
            log.append(journal.Record(fact))
    return loaded, job
