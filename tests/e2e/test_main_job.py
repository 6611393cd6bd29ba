"""The main job for real: torchrun, two gloo ranks, DCP; the short form of tests/e2e/faults.py."""

import json

import pytest

from orchestrator.config import RunDir
from orchestrator.core.facts import Launched
from orchestrator.review.replay import replay
from orchestrator.store import journal
from orchestrator.store.policy_text import checked, load_text
from tests.e2e import faults
from tests.e2e.crash_points import disturbed

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


def test_a_supervisor_killed_at_any_point_leaves_training_alone_and_the_same_command_adopts_it(tmp_path):
    """After the launch's outcome, the rollback's decision and an outcome of it; everywhere: tests.e2e.crash_points."""
    ended = disturbed(tmp_path / "run", (2, 5, 7), "faults=bad_shard", "steps=600")
    assert ended.deaths == 3
    assert faults.saved(ended.run), ended.run.status["incidents"]
    assert ended.steps()[2] == list(range(ended.steps()[2][0], 601))
    assert len({fact.pid for fact in ended.facts() if isinstance(fact, Launched)}) == 2
    assert faults.left(ended.run.folder) == []


def _policy_of(folder):
    return checked(load_text(journal.header_of(RunDir(folder).journal)["policy"], "policy", None))
