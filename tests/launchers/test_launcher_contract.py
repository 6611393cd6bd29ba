"""Every launcher makes a command that keeps the job's own words, and says where it runs if it knows."""

import pytest

from orchestrator import registry
from orchestrator.launchers import slurm, torchrun

NAMES = registry.names("launchers")
WORDS = ["train.py", "--name=a b", "--x={y}", ""]


@pytest.mark.parametrize("name", NAMES)
def test_the_jobs_words_come_last_and_unchanged(name):
    command = registry.load("launchers", name).command(WORDS, {"kind": name, "attempt": 1, "exclude": ()})
    assert command[-len(WORDS) :] == WORDS
    assert all(isinstance(word, str) for word in command)


@pytest.mark.parametrize("name", NAMES)
def test_every_launcher_says_what_it_is(name):
    module = registry.load("launchers", name)
    assert module.__doc__
    assert module.command.__doc__


@pytest.mark.parametrize("name", ["torchrun", "slurm"])
def test_restarts_are_the_policys_never_the_launchers(name):
    assert "--max-restarts=0" in registry.load("launchers", name).command(WORDS, {"attempt": 1})


def test_the_number_of_ranks_is_the_configurations():
    assert "--nproc-per-node=4" in torchrun.command(WORDS, {"ranks": 4})


def test_an_excluded_host_leaves_one_node_less(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "4")
    command = slurm.command(WORDS, {"attempt": 2, "exclude": ("n3",)})
    assert {"--nodes=3", "--nnodes=3", "--exclude=n3"} <= set(command)


def test_two_attempts_never_meet_at_one_rendezvous(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    names = {word for n in (1, 2) for word in slurm.command(WORDS, {"attempt": n}) if word.startswith("--rdzv-id")}
    assert names == {"--rdzv-id=77-1", "--rdzv-id=77-2"}


def test_outside_of_slurm_there_is_no_place(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert slurm.place() == ()


def test_inside_of_slurm_the_allocation_is_told_even_when_its_controller_is_silent(monkeypatch):
    for name, value in (("JOB_ID", "7"), ("RESTART_COUNT", "2"), ("JOB_NODELIST", "n[1-2]")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert dict(slurm.place()) == {"scheduler": "slurm", "job": "7", "restarts": "2", "nodes": "n[1-2]"}
    assert "scontrol" in slurm.requeue()
