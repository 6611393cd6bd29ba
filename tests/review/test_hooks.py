"""The pre-commit hooks: what they match, and that their entries are commands of ours."""

import re
from pathlib import Path

import pytest

from orchestrator.cli import COMMANDS
from orchestrator.store.yaml_text import parse
from tests.cli.calling import call

FILE = Path(__file__).resolve().parents[2] / ".pre-commit-hooks.yaml"
HOOKS = {hook["id"]: hook for hook in parse(FILE.read_text(), FILE.name).value}


def test_hooks_call_commands_that_are_there():
    for hook in HOOKS.values():
        program, command = hook["entry"].split()
        assert program == "orchestrate"
        assert command in COMMANDS


@pytest.mark.parametrize(
    ("path", "wanted"),
    [("policies/mine.yaml", True), ("a/policies/mine.yaml", True), ("policies/mine.cases.yaml", False),
     ("policies/deep/mine.yaml", False), ("conf/pretrain.yaml", False)],
)  # fmt: skip
def test_lint_is_run_on_policies_only(path, wanted):
    hook = HOOKS["orchestrate-lint"]
    assert bool(re.search(hook["files"], path) and not re.search(hook["exclude"], path)) is wanted


def test_the_entries_work_on_a_projects_policies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "mine.yaml").write_text("version: 1\nextends: pretrain\n")
    (tmp_path / "policies" / "mine.cases.yaml").write_text("cases: [{name: silence, loss: 3~0.01x99, expect: []}]\n")
    assert call("lint", "policies/mine.yaml").code == 0
    assert call("test").out == "1 case(s), all as expected\n"
