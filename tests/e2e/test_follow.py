"""Several hosts without a scheduler: one supervises, the others follow it through the run directory."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.facts import Launched, Order
from orchestrator.wire import read_json
from tests.runtime.scripted import POLICY, ROOT, TRAINER, Run

CONF = """\
policy: {dir}/policy.yaml
run: {{dir: {dir}/run}}
job: {{command: [{trainer}, {dir}/script.json]}}
launcher: {{kind: nodes, nodes: 2, ranks: 1, index: 0, host: localhost, port: {port}}}
checkpoints: {{layout: huggingface, root: checkpoints}}
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    made.clean()


def hosts(run: Run, *troubles: dict, **script) -> list["subprocess.Popen[str]"]:
    """The same command twice, the following host first."""
    script = {"total": 300, "rate": 100, "every": 20, "troubles": troubles, **script}
    (run.folder / "script.json").write_text(json.dumps(script))
    (run.folder / "policy.yaml").write_text(POLICY)
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    (run.folder / "job.yaml").write_text(CONF.format(dir=run.folder, trainer=TRAINER, port=port))
    return [started(run, index) for index in (1, 0)]


def started(run: Run, index: int) -> "subprocess.Popen[str]":
    words = ["run", f"conf={run.folder / 'job.yaml'}", f"launcher.index={index}"]
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator.cli", *words], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_every_host_starts_the_attempts_that_the_first_one_decides(run):
    follower, supervisor = hosts(run, {"at": 120, "do": "level"})
    said = [child.communicate(timeout=120)[0] for child in (supervisor, follower)]
    assert (supervisor.returncode, follower.returncode) == (0, 0), said
    assert [f.start_step for f in run.facts() if isinstance(f, Launched)] == [0, 100]
    for attempt in (1, 2):
        assert read_json(run.dir.attempt(attempt).path / "node-1" / "exit.json") is not None
    assert run.processes() == []


def test_a_notice_to_a_following_host_saves_the_whole_run(run):
    follower, supervisor = hosts(run, total=100_000)
    run.wait_for(lambda: len(run.steps(1)) > 30, 90)
    follower.send_signal(signal.SIGTERM)
    for child in (supervisor, follower):
        child.communicate(timeout=90)
    assert (supervisor.returncode, follower.returncode) == (75, 75)
    (order,) = [f for f in run.facts() if isinstance(f, Order)]
    assert (order.verb, order.why) == ("preempt", "SIGTERM to host 1")
    assert run.processes() == []
