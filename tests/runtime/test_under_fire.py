"""Twenty kills of trainer and supervisor; tests/bench/checkpoints/kill_checkpoints.py takes three hundred."""

from pathlib import Path

import pytest

from tests.runtime.killing import template, under_fire


@pytest.mark.timeout(170)
def test_no_kill_loses_the_last_healthy_checkpoint_or_loads_a_broken_one(tmp_path: Path) -> None:
    (folder := tmp_path / "run").mkdir()
    wrong, kills, happened = under_fire(folder, template(tmp_path / "template"), seed=7, kills=20)
    assert wrong == []
    assert sum(kills.values()) == 20
    assert happened["saved"] > 50
    assert happened["removed"] > 20
    assert happened["relaunches"] > 2
