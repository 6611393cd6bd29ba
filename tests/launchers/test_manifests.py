"""The cluster manifests say what our exit codes mean, and are valid where a validator is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

CLUSTER = Path(__file__).resolve().parent.parent.parent / "examples" / "cluster"
MANIFESTS = sorted(CLUSTER.glob("*.yaml"))


def loaded(path: Path) -> dict:
    return YAML(typ="safe").load(path.read_text())


def job_of(manifest: dict) -> dict:
    """The Job: itself, or the one that a JobSet makes."""
    if manifest["kind"] == "JobSet":
        template = manifest["spec"]["replicatedJobs"][0]["template"]
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": manifest["metadata"], **template}
    return manifest


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_what_asks_for_a_person_fails_for_good_and_75_does_not(path):
    spec = job_of(loaded(path))["spec"]
    final = {
        c for r in spec["podFailurePolicy"]["rules"] if r["action"] == "FailJob" for c in r["onExitCodes"]["values"]
    }
    assert final == {2, 3, 4}
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["terminationGracePeriodSeconds"] >= 60
    names = {c["name"] for c in pod["containers"]}
    rules = [r["onExitCodes"] for r in spec["podFailurePolicy"]["rules"] if "onExitCodes" in r]
    assert {rule["containerName"] for rule in rules} <= names


def test_the_pods_of_a_jobset_agree_with_the_command_that_they_run():
    spec = job_of(loaded(CLUSTER / "kubernetes-jobset.yaml"))["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert f"launcher.nodes={spec['completions']}" in container["command"]
    assert spec["parallelism"] == spec["completions"]
    assert spec["completionMode"] == "Indexed"


VALIDATOR = shutil.which("kubernetes-validate")


@pytest.mark.skipif(VALIDATOR is None, reason="no kubernetes-validate here (pip install kubernetes-validate)")
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_every_job_is_valid(path, tmp_path):
    with open(tmp_path / "job.yaml", "w") as file:
        YAML(typ="safe").dump(job_of(loaded(path)), file)
    done = subprocess.run([VALIDATOR, "--strict", tmp_path / "job.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
