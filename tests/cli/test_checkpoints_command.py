"""orchestrate checkpoints: a run, a bare folder, verification, pins and rejections."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.cli.checkpoints import command
from orchestrator.config import RunDir
from orchestrator.core.facts import Checkpoint, Exited, Launched, Step, Tick
from orchestrator.runtime import orders
from orchestrator.store.journal import Journal, Record, header
from orchestrator.store.policy_text import load_text, yaml_dump

POLICY = "version: 1\nextends: pretrain\ncheckpoints: {every: auto, healthy_after: 50 steps}\n"


def ask(*words: object) -> Any:
    result = CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)
    if result.exception:
        raise result.exception
    return json.loads(result.output) if "--json" in words else result.output


def rows(*words: object) -> list[tuple[int, str]]:
    return [(row["step"], row["health"]) for row in ask(*words, "--json")["checkpoints"]]


def hf(root: Path, step: int, optimizer: bool = True) -> Path:
    path = root / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    if optimizer:
        import torch

        torch.save({}, path / "optimizer.pt")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "run")
    made.path.mkdir()
    loaded = load_text(POLICY, "policy.yaml", None)
    layout = {"config": {"checkpoints": {"layout": "huggingface"}}}
    facts = [Tick(0.0), Launched(1, 0, "", "here", 1, 0.0)]
    for step in range(1, 301):
        facts.append(Step(1, step, float(step), loss=2.0, lr=1e-3))
        if step % 100 == 0:
            path = str(hf(tmp_path / "run" / "checkpoints", step))
            facts.append(Checkpoint(1, step, path, "saved", time=float(step), seconds=4.0))
    facts.append(Exited(1, 1, None, "crash", "exit code 1", 7200.0))
    with Journal(made.journal, header("policy.yaml", yaml_dump(loaded.raw), loaded.digest, **layout)) as log:
        for fact in facts:
            log.append(Record(fact))
    return made


def test_a_run_tells_health_and_reason_and_the_cadence_with_its_numbers(run: RunDir):
    assert rows(run.path) == [(100, "healthy"), (200, "healthy"), (300, "provisional")]
    auto = ask(run.path, "--json")["auto"]
    assert (auto["cost"], auto["failures"], auto["ran"]) == (4.0, 1, 7200.0)
    assert auto["mtbf"] == pytest.approx((7200 + 86400) / 2)
    assert auto["seconds"] == pytest.approx((2 * 4.0 * auto["mtbf"]) ** 0.5, rel=0.02)
    assert "a save takes 4 s" in ask(run.path)


@pytest.mark.parametrize("words", [("--verify",), ("--verify", "full")])
@pytest.mark.parametrize("first", [True, False], ids=["before the run", "after the run"])
def test_verification_finds_what_the_facts_do_not_know(run: RunDir, words: tuple[str, ...], first: bool):
    whole = run.path / "checkpoints"
    (whole / "checkpoint-200" / "optimizer.pt").write_bytes(b"PK cut off")
    (whole / "checkpoint-300" / "trainer_state.json").unlink()
    (whole / "checkpoint-300" / "model.safetensors").unlink()
    (whole / "checkpoint-300" / "optimizer.pt").unlink()
    given = (*words, run.path) if first else (run.path, *words)
    assert rows(*given) == [(100, "healthy"), (200, "bad"), (300, "missing")]
    assert "is cut off" in ask(*given)


@pytest.mark.parametrize("layout", [(), ("--layout", "huggingface")])
def test_a_bare_folder_needs_no_run_and_tells_its_layout_itself(tmp_path: Path, layout: tuple[str, ...]):
    for step in (900, 1000, 20000):
        hf(tmp_path, step, optimizer=step != 1000)
    (tmp_path / "checkpoint-20000" / "trainer_state.json").unlink()
    assert rows(tmp_path, *layout) == [(900, "provisional"), (1000, "provisional"), (20000, "candidate")]
    body = ask(tmp_path, *layout, "--json")
    assert body["layout"] == "huggingface"
    assert "holds no optimizer" in body["checkpoints"][1]["reason"]


def test_a_folder_anywhere(tmp_path: Path):
    import fsspec

    fs = fsspec.filesystem("memory")
    for name, data in (
        ("model.safetensors", (2).to_bytes(8, "little") + b"{}"),
        ("trainer_state.json", b'{"global_step": 7}'),
    ):
        fs.pipe_file(f"/bare/checkpoint-7/{name}", data)
    (row,) = ask("memory://bare", "--json")["checkpoints"]
    assert (row["step"], row["path"]) == (7, "memory:///bare/checkpoint-7")
    fs.rm("/bare", recursive=True)


def test_pins_and_rejections_are_orders_to_the_run(run: RunDir):
    assert "pin the checkpoint of step 100" in ask(run.path, "pin", 100)
    ask(run.path, "reject", 200, "--why", "trained on the wrong data")
    given = [order for _, order in orders.take(run, 1.0)]
    assert [(o.verb, o.value, o.why) for o in given] == [
        ("pin", 100.0, ""),
        ("reject", 200.0, "trained on the wrong data"),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reject", "100"), "say why"),
        (("pin", "150"), "no complete checkpoint of step 150"),
        (("keep", "100"), "pin, unpin, reject"),
        (("pin",), "and a step"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(run: RunDir, words: tuple[str, ...], message: str):
    with pytest.raises(Exception, match=message):
        ask(run.path, *words)
    assert orders.take(run, 1.0) == []
