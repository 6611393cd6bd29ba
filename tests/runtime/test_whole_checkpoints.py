"""Checkpoints in whole runs of real processes: a flipped bit, a full disk, a job that knows nothing of us."""

import collections
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import registry
from orchestrator.config import Config, Job
from orchestrator.core.facts import Checkpoint, Decision, Fact, Launched, Room, Step
from orchestrator.core.health import health
from orchestrator.core.state import State
from orchestrator.runtime import storage
from orchestrator.runtime.supervisor import Supervisor
from orchestrator.store.policy_text import checked, load_text
from tests.runtime.scripted import POLICY, Run

Usage = collections.namedtuple("Usage", "total used free")


def launches(run: Run) -> list[tuple[int, str]]:
    return [(f.start_step, f.checkpoint.rpartition("/")[2]) for f in run.facts() if isinstance(f, Launched)]


def test_a_flipped_bit_is_caught_before_the_relaunch_and_the_target_falls_back(run: Run):
    run.lay_out({"at": 120, "do": "level"})
    target = run.dir.path / "checkpoints" / "checkpoint-100"

    def flip(state: State, fact: Fact) -> None:
        """A blank becomes a tab: JSON stays JSON, no size changes."""
        if isinstance(fact, Step) and (fact.attempt, fact.step) == (1, 118):
            run.wait_for(lambda: any(target.glob("*digests.json")))
            text = (target / "trainer_state.json").read_bytes()
            (target / "trainer_state.json").write_bytes(text.replace(b" ", b"\t"))

    state = run.supervise(flip)
    assert (state.status, state.step, state.attempt) == ("completed", 300, 2)
    assert launches(run) == [(0, ""), (80, "checkpoint-80")]
    bad = next(f for f in run.facts() if isinstance(f, Checkpoint) and f.state == "corrupt")
    assert (bad.step, bad.attempt) == (100, 1)
    assert bad.why == "trainer_state.json is not what was saved: its digest differs"
    again = [d for d in run.facts() if isinstance(d, Decision)][2]
    assert [(a.verb, a.to_step) for a in again.actions] == [("rollback", 80), ("relaunch", 80)]
    assert "the checkpoint of step 100 cannot be loaded" in again.why


class TestAFullDisk:
    POLICY = POLICY + "failures: {disk_full: {respond: [relaunch]}}\n"

    def test_with_room_the_run_goes_on(self, run: Run):
        state = run.lay_out({"at": 110, "do": "disk_full", "attempts": 1}, policy=self.POLICY).supervise()
        assert (state.status, state.attempt) == ("completed", 2)
        assert launches(run)[1] == (100, "checkpoint-100")
        assert [i.cls for i in state.incidents] == ["disk_full"]

    def test_without_room_it_waits_until_somebody_makes_some(self, run: Run, monkeypatch: pytest.MonkeyPatch):
        free = [1]
        monkeypatch.setattr(storage.shutil, "disk_usage", lambda path: Usage(100, 99, free[0]))
        monkeypatch.setattr(storage, "SCAN", 0.05)
        waited: list[str] = []

        def make_room(state: State, fact: Fact) -> None:
            if isinstance(fact, Room) and free[0] == 1:
                waited.append(state.status)
                free[0] = 1 << 30

        state = run.lay_out({"at": 110, "do": "disk_full", "attempts": 1}, policy=self.POLICY).supervise(make_room)
        assert (state.status, state.attempt) == ("completed", 2)
        rooms = [f for f in run.facts() if isinstance(f, Room)]
        assert [f.free for f in rooms] == [1, 1 << 30]
        facts = run.facts()
        second = next(i for i, f in enumerate(facts) if isinstance(f, Launched) and f.attempt == 2)
        assert facts.index(rooms[1]) < second, "not before there was room"

    def test_a_policy_that_does_not_treat_it_ends_the_run_with_that_word(self, run: Run):
        state = run.lay_out(
            {"at": 110, "do": "disk_full"}, policy=POLICY + "failures: {disk_full: {respond: []}}\n"
        ).supervise()
        assert state.status == "failed"
        assert state.why.startswith("disk_full: ")
        assert "No space left on device" in state.why


UNTOUCHED = """\
import json, pathlib, sys, time
resume, root = sys.argv[1], pathlib.Path(sys.argv[2])
step = int(resume.rpartition("-")[2]) if resume else 0
while step < 300:
    step += 1
    time.sleep(0.004)
    print(json.dumps({"step": step, "loss": 2.0, "grad_norm": 1.0, "lr": 0.001}))
    if step % 50 == 0:
        path = root / f"checkpoint-{step}"
        path.mkdir(parents=True, exist_ok=True)
        (path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    if step == 230 and not resume:
        raise ValueError("no good")
"""


def foreign(root: Path, *steps: int) -> None:
    for step in steps:
        (path := root / f"checkpoint-{step}").mkdir(parents=True)
        (path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def untouched(run: Run, policy: str) -> State:
    """Supervise a job that knows nothing of us: its printed lines and its folders are all there is."""
    root = run.folder / "out"
    (run.folder / "train.py").write_text(UNTOUCHED)
    run.dir.path.mkdir(exist_ok=True)
    command: Any = (sys.executable, "-S", str(run.folder / "train.py"), "{checkpoint}", str(root))
    config = Config(
        root=run.folder, run_dir=run.dir.path, job=Job(command, str(run.folder)), policy="policy", overrides=(),
        launcher={"kind": "local"}, telemetry={"kind": "jsonl"}, stop_grace=5.0,
        checkpoints={"layout": "huggingface", "root": str(root)},
    )  # fmt: skip
    loaded = load_text(policy, "policy.yaml", None)
    return Supervisor(config, run.dir, loaded, registry.bind(checked(loaded)), lambda state, fact: None).run()


def test_of_a_job_that_knows_nothing_of_us_the_folders_are_followed_and_an_older_run_s_are_not(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    """K13: 500 to 700 are an older run's: neither resumed from nor counted by retention, nor removed."""
    monkeypatch.setattr(storage, "SCAN", 0.02)
    foreign(run.folder / "out", 500, 600, 700)
    keep = POLICY.replace("after_incident: null", "after_incident: null, keep: {last: 1, healthy: 1}")
    state = untouched(run, keep)
    assert launches(run)[:2] == [(0, ""), (200, "checkpoint-200")]
    assert state.incidents[0].cls == "crash"
    assert {f.step for f in run.facts() if isinstance(f, Checkpoint)} <= set(range(50, 301, 50))
    left = {int(path.name[11:]) for path in (run.folder / "out").glob("checkpoint-*")}
    assert {500, 600, 700, 300} <= left
    assert 50 not in left
    rules = registry.bind(checked(load_text(keep, "policy.yaml", None)))
    words = {c.step: health(rules, state, c) for c in state.checkpoints}
    assert words[50] == ("missing", "removed by retention")
    assert words[200].health == "healthy"


def test_a_rollback_applied_again_after_its_relaunch_leaves_the_new_attempt_s_checkpoints(run: Run):
    supervisor = run.lay_out({"at": 120, "do": "level"}).supervisor()
    assert supervisor.run().status == "completed"
    world = supervisor._world
    world.attempt = 1  # as a supervisor knows it that died before it journaled the launch
    before = sorted(path.name for path in (run.dir.path / "checkpoints").glob("checkpoint-*"))
    assert "was started" in world.point_to(100, str(run.dir.path / "checkpoints" / "checkpoint-100"))
    assert sorted(path.name for path in (run.dir.path / "checkpoints").glob("checkpoint-*")) == before
