"""A real run whose checkpoints stand in a bucket: saved, verified, rolled back and resumed, also when calls fail."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator import registry
from orchestrator.config import Config, Job, RunDir
from orchestrator.core.facts import Checkpoint, Decision, Launched
from orchestrator.runtime.supervisor import Supervisor
from orchestrator.store import journal
from orchestrator.store.policy_text import checked, load_text
from tests.e2e.bucket import Bucket, served

pytest.importorskip("s3fs", reason="s3fs is not installed (extra: s3)")
pytest.importorskip("moto.server", reason="moto is not installed (extra: test)")

ROOT = Path(__file__).resolve().parent.parent.parent
POLICY = """\
version: 1
extends: pretrain
checkpoints:
  {every: 20 steps, healthy_after: 15 steps, margin: 3 steps, after_incident: null, keep: {last: 3, healthy: 2}}
clip: {max_norm: null}
spikes:
  persistent: {confirm: {for: 5 steps}, respond: [[rollback, {quarantine: suspect window}, relaunch], [hold]]}
limits: {quarantine: {max_share: 10%}}
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[Bucket, str]]:
    with served() as made:
        yield made


def supervise(folder: Path, root: str, *words: str) -> tuple[Any, RunDir]:
    run = RunDir(folder / "run")
    run.path.mkdir()
    trainer = Path(__file__).with_name("bucket_trainer.py")
    config = Config(
        root=ROOT, run_dir=run.path, job=Job((sys.executable, str(trainer), *words), str(folder)), policy="policy",
        overrides=(), launcher={"kind": "local"}, telemetry={"kind": "wire"},
        checkpoints={"layout": "dcp", "root": root}, stop_grace=30.0,
    )  # fmt: skip
    loaded = load_text(POLICY, "policy.yaml", None)
    return Supervisor(config, run, loaded, registry.bind(checked(loaded)), lambda state, fact: None).run(), run


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("share", "words"), [(0.0, ()), (0.05, ()), (0.05, ("later",))])
def test_the_end_is_the_same_however_many_calls_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: tuple[Bucket, str], share: float, words: tuple[str, ...]
) -> None:
    import s3fs

    server, address = bucket
    for key, value in (
        ("AWS_ENDPOINT_URL", address), ("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):  # fmt: skip
        monkeypatch.setenv(key, value)
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"run-{int(100 * share)}-{len(words)}"
    s3fs.S3FileSystem().mkdir(name)
    server.share, server.calls, server.refused = share, 0, 0
    root = f"s3://{name}/checkpoints"
    state, run = supervise(tmp_path, root, *words)
    assert (state.status, state.step, state.attempt) == ("completed", 200, 2), state.why
    facts = [record.fact for record in journal.read(run.journal).records]
    launches = [(f.start_step, f.checkpoint) for f in facts if isinstance(f, Launched)]
    assert launches == [(0, ""), (100, f"{root}/step-100")]
    assert [a.verb for f in facts if isinstance(f, Decision) for a in f.actions][1:] == [
        "stop", "rollback", "quarantine", "relaunch",
    ]  # fmt: skip
    removed = {f.step for f in facts if isinstance(f, Checkpoint) and f.state == "missing"}
    assert {20, 40} <= removed
    listed = {path.rpartition("/")[2] for path in s3fs.S3FileSystem().ls(f"{name}/checkpoints", refresh=True)}
    assert {"step-200", "step-180", "step-160"} <= listed
    assert not {"step-20", "step-40"} & listed
    assert (server.refused > 0) == (share > 0)

    server.share = 0.0
    from orchestrator.cli.checkpoints import command

    told = CliRunner().invoke(command, [root, "--layout", "dcp", "--verify", "full", "--json"], standalone_mode=False)
    rows = {row["step"]: row for row in json.loads(told.output)["checkpoints"]}
    assert {rows[step]["health"] for step in (160, 180, 200)} == {"provisional"}
    assert (run.path / "attempts" / "0002" / "exit.json").exists()
