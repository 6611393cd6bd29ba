"""Every trainer that is installed here is saved by the policy, with one added line. CI installs torch alone."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.trainers import JOBS, judged, supervised


@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, job in JOBS.items() for fault in job.faults])
def test_the_policy_saves_the_run(name: str, fault: str, tmp_path: Path) -> None:
    job = JOBS[name]
    if find_spec(job.package) is None:
        pytest.skip(f"{job.package} is not installed")
    assert judged(supervised(tmp_path, job, fault)) == []
