"""On a real Slurm of two nodes: submitted, relaunched inside the allocation, taken away, requeued, resumed."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.facts import Exited, Launched, Supervised
from orchestrator.store import journal
from orchestrator.wire import read_json
from tests.e2e.slurm_cluster import Cluster, missing
from tests.runtime.scripted import POLICY, ROOT, TRAINER, Run

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"no Slurm: {missing()}"),
    pytest.mark.timeout(400),
]
long = pytest.mark.skipif(not os.environ.get("ORCHESTRATE_SLURM"), reason="minutes on Slurm: set ORCHESTRATE_SLURM=1")

CONF = """\
policy: {dir}/policy.yaml
run: {{dir: {dir}/run}}
job: {{command: [{trainer}, {dir}/script.json]}}
launcher: {{kind: slurm, nodes: 2, ranks: 1, time: "{time}", notice: {notice}, requeue: true, python: {python}}}
checkpoints: {{layout: huggingface, root: checkpoints}}
stop: {{grace: 20}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def submit(cluster: Cluster, *arguments: str) -> str:
    """The number of the job that `orchestrate submit` made."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.cli", "submit", *arguments], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "SLURM_CONF": str(cluster.conf), "PYTHONPATH": str(ROOT)}, check=True,
    )  # fmt: skip
    return done.stdout.split()[1].rstrip(":")


def scripted(cluster: Cluster, run: Run, *troubles: dict, limit: str = "10:00", notice: int = 60, more: str = "",
             **script) -> str:  # fmt: skip
    """A run of the scripted trainer on both nodes; `more` is added to its policy."""
    script = {"total": 300, "rate": 100, "every": 20, "troubles": troubles, **script}
    (run.folder / "script.json").write_text(json.dumps(script))
    (run.folder / "policy.yaml").write_text(POLICY + more)
    conf = CONF.format(dir=run.folder, trainer=TRAINER, python=sys.executable, time=limit, notice=notice)
    (run.folder / "job.yaml").write_text(conf)
    return submit(cluster, f"conf={run.folder / 'job.yaml'}")


def over(cluster: Cluster, job: str, within: float = 120) -> dict[str, str]:
    """What Slurm says of a job once it is over."""
    cluster.wait_for(lambda: cluster.job(job)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"), within)
    return cluster.job(job)


def again(cluster: Cluster, job: str) -> None:
    """A requeued job waits two minutes; here it need not, but in the second of its end it would be refused.

    Said again where Slurm, still at its requeueing, has set the two minutes after it was told.
    """
    cluster.wait_for(lambda: cluster.job(job)["JobState"] == "PENDING", 90)
    told = -math.inf

    def started() -> bool:
        nonlocal told
        waits = cluster.job(job)["JobState"] == "PENDING"
        if waits and time.monotonic() > told + 10:
            cluster.said("scontrol", "update", f"jobid={job}", "StartTime=now+2")
            told = time.monotonic()
        return not waits

    cluster.wait_for(started, 90)


def facts(run: Run, kind: type) -> list:
    return [f for f in run.facts() if isinstance(f, kind)]


@long
def test_the_example_heals_a_bad_shard_inside_its_allocation(cluster, tmp_path):
    where = tmp_path / "run"
    job = submit(cluster, "conf=pretrain.yaml", "launcher=slurm", "launcher.nodes=2", "ranks=1", f"run.dir={where}",
                 "steps=600", "faults=bad_shard")  # fmt: skip
    told = over(cluster, job, 350)
    assert (told["JobState"], told["ExitCode"]) == ("COMPLETED", "0:0"), (where / f"slurm-{job}.log").read_text()
    records = [record.fact for record in journal.read(where / "journal.jsonl").records]
    assert [f.attempt for f in records if isinstance(f, Launched)] == [1, 2]
    assert dict(next(f for f in records if isinstance(f, Supervised)).place)["nodes"] == "n[1-2]"
    assert read_json(where / "exit.json")["step"] == 600


def test_a_rollback_inside_the_allocation(cluster, run):
    job = scripted(cluster, run, {"at": 120, "do": "level"})
    assert over(cluster, job)["ExitCode"] == "0:0"
    assert [f.start_step for f in facts(run, Launched)] == [0, 100]
    assert facts(run, Exited)[0].code == 0


@pytest.mark.parametrize("sent", ["by hand", pytest.param("before the limit", marks=long)])
def test_the_notice_saves_requeues_and_resumes_at_that_step(cluster, run, sent):
    limit = {"limit": "2:00", "notice": 90} if sent == "before the limit" else {}
    job = scripted(cluster, run, total=100_000, rate=20, **limit)
    cluster.wait_for(lambda: len(run.steps(1)) > 20)
    if not limit:  # the same signal to the same process
        cluster.said("scancel", "--batch", "--signal=USR1", job)
    cluster.wait_for(run.dir.exit.exists, 120)
    saved = read_json(run.dir.exit)
    assert (saved["state"], saved["code"]) == ("preempted", 75)
    again(cluster, job)
    cluster.wait_for(lambda: len(facts(run, Launched)) == 2 and len(run.steps(2)) > 3, 90)
    assert facts(run, Launched)[1].start_step == saved["step"]
    assert [dict(f.place)["restarts"] for f in facts(run, Supervised)] == ["0", "1"]
    assert run.steps(1)[-1] == saved["step"] == run.steps(2)[0] - 1
    cluster.said("scancel", job)
    over(cluster, job)


@long
def test_scancel_is_final_and_leaves_nothing(cluster, run):
    job = scripted(cluster, run, total=100_000)
    cluster.wait_for(lambda: len(run.steps(1)) > 20)
    cluster.said("scancel", job)
    assert over(cluster, job)["JobState"] == "CANCELLED"
    cluster.wait_for(lambda: not run.processes(), 30)


@long
def test_a_lost_node_costs_the_steps_since_the_checkpoint_and_a_requeue(cluster, run):
    job = scripted(cluster, run, total=100_000, rate=50)
    cluster.wait_for(lambda: len(run.steps(1)) > 50)
    cluster.kill_node("n2")
    cluster.said("scontrol", "update", "nodename=n2", "state=down", "reason=killed")
    cluster.wait_for(lambda: cluster.job(job)["Restarts"] == "1", 60)
    reached = run.steps(1)[-1]
    cluster.start_node("n2")
    cluster.said("scontrol", "update", "nodename=n2", "state=resume")
    again(cluster, job)
    cluster.wait_for(lambda: run.steps(2), 90)
    assert dict(facts(run, Supervised)[-1].place)["restarts"] == "1"
    attempt = facts(run, Launched)[-1]
    assert attempt.start_step >= reached - 40
    assert attempt.start_step % 20 == 0
    cluster.said("scancel", job)
    over(cluster, job)


@long
@pytest.mark.parametrize(("more", "code"), [("", "3:0"), ("failures: {oom: {respond: []}}\n", "1:0")])
def test_our_exit_code_is_the_jobs(cluster, run, more, code):
    job = scripted(cluster, run, {"at": 30, "do": "out_of_memory"}, more=more)
    told = over(cluster, job)
    assert (told["JobState"], told["ExitCode"]) == ("FAILED", code)
