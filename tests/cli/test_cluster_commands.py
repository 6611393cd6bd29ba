"""ctl, silence, watch, submit, init and doctor as a person types them, the run being another process."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from orchestrator.cli import group
from orchestrator.core.facts import Decision, Order
from orchestrator.errors import OrchestrateError
from tests.runtime.scripted import POLICY, ROOT, Run


class Said(NamedTuple):
    exit_code: int
    output: str


def orchestrate(*words: str) -> Said:
    """In this process, with the exit code that `main` would make of it."""
    result = CliRunner().invoke(group, list(words), standalone_mode=False)
    match result.exception:
        case None:
            return Said(result.return_value or 0, result.output)
        case click.ClickException() as error:
            return Said(error.exit_code, error.format_message())
        case OrchestrateError() as error:
            return Said(error.exit_code, str(error))
    raise result.exception


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "orchestrator.cli", *words], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    made.clean()


@pytest.fixture
def held(tmp_path: Path) -> Run:
    run = Run(tmp_path).lay_out({"at": 50, "do": "crash"})
    assert run.supervise().status == "held"
    return run


def test_a_proposal_is_seen_and_approved_from_another_process(run):
    policy = POLICY + "mode: propose\npropose: {wait: 60s, then: hold}\n"
    child = run.lay_out({"at": 120, "do": "level"}, policy=policy).start()
    run.wait_for(lambda: any(isinstance(f, Decision) and f.mode == "propose" for f in run.facts()))
    picture = orchestrate("watch", str(run.dir.path), "--once").output
    assert "awaits a yes: orchestrate ctl" in picture.replace("\n", " ")
    assert typed("ctl", str(run.dir.path), "approve", "--why", "yes").returncode == 0
    assert child.wait(timeout=60) == 0
    child.communicate()
    assert [f.verb for f in run.facts() if isinstance(f, Order)] == ["approve"]


def test_orders_reach_a_run_of_another_process(run):
    child = run.lay_out(total=100_000, rate=100).start()
    run.wait_for(lambda: len(run.steps(1)) > 60)
    where = str(run.dir.path)
    assert typed("ctl", where, "lr", "50%", "--why", "hot").stdout == f"told the run at {where}: lr 50%\n"
    run.wait_for(lambda: any(isinstance(f, Decision) and f.order for f in run.facts()))
    assert orchestrate("ctl", where, "stop").exit_code == 0
    assert child.wait(timeout=60) == 3
    child.communicate()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lr"], "lr needs a share"),
        (["lr", "0.5"], "lr needs a share"),
        (["stop", "3"], "stop takes no value '3'"),
        (["rollback", "soon"], "rollback takes no value 'soon'"),
        (["release"], "say why"),
        (["checkpoint"], "the run is held: nobody is there to checkpoint"),
        (["dance"], "'dance' is not one of"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_two(held, words, said):
    result = orchestrate("ctl", str(held.dir.path), *words)
    assert result.exit_code == 2
    assert said in result.output
    assert not list(held.dir.path.glob("orders/*"))


def test_a_release_waits_for_the_next_start(held):
    result = orchestrate("ctl", str(held.dir.path), "release", "--why", "mended")
    assert result.output == f"told the run at {held.dir.path}: release at its next start\n"
    assert len(list(held.dir.orders.glob("*.json"))) == 1


def test_a_host_is_released_by_its_name_and_a_reason(tmp_path):
    policy = POLICY + "failures: {host: {respond: [exclude, hold]}}\n"
    run = Run(tmp_path).lay_out({"at": 50, "do": "lose_host"}, policy=policy, hosts=["a", "b"])
    assert run.supervise().levels.hosts == ("b",)
    where = str(run.dir.path)
    assert "left out: host b" in orchestrate("status", where).output
    assert orchestrate("ctl", where, "release", "--host", "b").output.startswith("say why")
    assert "a is not left out; b is" in orchestrate("ctl", where, "release", "--host", "a", "--why", "x").output
    assert "stop is said of no host" in orchestrate("ctl", where, "stop", "--host", "b").output
    assert not list(run.dir.path.glob("orders/*"))
    told = orchestrate("ctl", where, "release", "--host", "b", "--why", "mended").output
    assert told == f"told the run at {where}: release b at its next start\n"
    state = run.supervise()
    assert (state.status, state.levels.hosts) == ("held", ())


def test_a_silence_is_added_listed_and_ended(run):
    child = run.lay_out(total=100_000, rate=100).start()
    run.wait_for(lambda: len(run.steps(1)) > 30)
    where = str(run.dir.path)
    assert orchestrate("silence", where, "add", "500 steps", "--why", "new data").exit_code == 0
    run.wait_for(lambda: any(isinstance(f, Order) for f in run.facts()))
    told = json.loads(orchestrate("silence", where, "list", "--json").output)["silences"]
    assert [(s["why"], s["in_force"]) for s in told] == [("new data", True)]
    assert orchestrate("silence", where, "expire").exit_code == 0
    run.wait_for(lambda: len([f for f in run.facts() if isinstance(f, Order)]) == 2)
    run.wait_for(lambda: "ended at step" in orchestrate("silence", where).output)
    orchestrate("ctl", where, "stop")
    child.communicate(timeout=60)
    assert "is stopped: nobody is there" in orchestrate("silence", where, "expire").output


def test_watch_shows_the_run_as_it_stands(held):
    picture = orchestrate("watch", str(held.dir.path), "--once").output
    assert picture.startswith("held  attempt 2  step 49/300")
    assert "loss █" in picture
    assert "crash" in picture


def test_watch_of_nothing_says_so(tmp_path):
    result = orchestrate("watch", str(tmp_path))
    assert result.exit_code == 4
    assert "there is no run here" in result.output


def test_submit_prints_the_script_it_would_submit(tmp_path):
    result = orchestrate("submit", "--print", "conf=pretrain.yaml", "launcher=slurm", "launcher.nodes=2",
                         "launcher.sbatch=['--partition=big']", f"run.dir={tmp_path}/r")  # fmt: skip
    lines = result.output.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert {"#SBATCH --nodes=2", "#SBATCH --signal=B:USR1@120", "#SBATCH --requeue", "#SBATCH --open-mode=append",
            "#SBATCH --partition=big"} <= set(lines)  # fmt: skip
    assert lines[-1].startswith("exec ")
    assert shlex.split(lines[-1])[-2:] == ["launcher.sbatch=['--partition=big']", f"run.dir={tmp_path}/r"]
    assert list(tmp_path.iterdir()) == []


def test_submit_without_slurm_in_the_configuration_is_refused():
    assert "submit needs launcher=slurm" in orchestrate("submit", "conf=pretrain.yaml", "run.dir=x").output


def test_init_writes_what_run_and_doctor_take(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = orchestrate("init", "--command", "python train.py --name 'a b'", "--name", "mine")
    assert result.exit_code == 0
    seen = orchestrate("doctor", "conf=mine")
    assert "wrong" not in seen.output, seen.output
    assert seen.exit_code == 0
    from orchestrator.config import load

    config = load(["conf=mine"])
    assert config.job.command == ("python", "train.py", "--name", "a b")
    assert config.policy == "policy.yaml"
    again = orchestrate("init", "--name", "mine")
    assert "exists already" in again.output


def test_doctor_names_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    orchestrate("init", "--command", "no_such_program x")
    seen = orchestrate("doctor", "conf=train", "checkpoints.layout=dcq")
    assert seen.exit_code == 1
    assert "no_such_program: there is no such program" in seen.output
    assert "'dcq'; known are" in seen.output
