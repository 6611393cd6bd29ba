"""The main job for real: torchrun, two gloo ranks, DCP; the short form of tests/e2e/faults.py."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from orchestrator.config import RunDir
from orchestrator.core.facts import Launched, Step
from orchestrator.review.replay import replay
from orchestrator.store import journal
from orchestrator.store.policy_text import checked, load_text
from tests.e2e import faults

pytestmark = pytest.mark.timeout(600)


def test_the_bad_batch_is_recorded_and_the_bad_shard_is_rolled_back(tmp_path):
    run = faults.supervise(tmp_path / "run", "default", seed=0, steps=600)
    assert faults.saved(run), run.status["incidents"]
    assert json.loads((run.folder / "exit.json").read_text())["code"] == 0
    outcomes = {
        a["verb"]: a["outcome"] for i in run.status["incidents"] for a in i["actions"] if i["class"] == "persistent"
    }
    assert {outcomes[verb] for verb in ("lr", "quarantine", "relaunch")} == {"confirmed"}
    assert faults.left(run.folder) == []
    again = faults.command("run", "conf=pretrain.yaml", f"run.dir={run.folder}")
    assert again.returncode == 0
    assert "over already" in again.stdout
    recorded = replay(_policy_of(run.folder), [str(run.folder)])["recordings"][0]
    assert recorded["agrees"] is True


def test_a_killed_supervisor_leaves_training_alone_and_the_same_command_adopts_it(tmp_path):
    folder = tmp_path / "run"
    words = ["run", "conf=pretrain.yaml", f"run.dir={folder}", "faults=none", "steps=300", "seed=3"]
    command = [sys.executable, "-m", "orchestrator.cli", *words]
    first = subprocess.Popen(command, cwd=faults.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    telemetry = folder / "attempts" / "0001" / "telemetry.jsonl"
    _await(lambda: telemetry.exists() and b'"step":60,' in telemetry.read_bytes())
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    job = json.loads((folder / "attempts" / "0001" / "process.json").read_text())["pid"]
    seen = telemetry.stat().st_size
    _await(lambda: telemetry.stat().st_size > seen)
    assert psutil.pid_exists(job)
    assert faults.command(*words, timeout=400).returncode == 0
    facts = [record.fact for record in journal.read(RunDir(folder).journal).records]
    assert [fact.pid for fact in facts if isinstance(fact, Launched)] == [job]
    assert [fact.step for fact in facts if isinstance(fact, Step)] == list(range(1, 301))
    assert faults.left(folder) == []


def _policy_of(folder):
    return checked(load_text(journal.header_of(RunDir(folder).journal)["policy"], "policy", None))


def _await(condition, within=240.0):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)
