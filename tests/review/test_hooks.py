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


def write(folder, **texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name.replace('_', '.')}.yaml").write_text(text)


SILENCE = "cases: [{name: silence, loss: 3~0.01x99, expect: []}]\n"


def test_the_entries_work_on_a_projects_policies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "policies", mine="version: 1\nextends: pretrain\n", mine_cases=SILENCE)
    assert call("lint", "policies/mine.yaml").code == 0
    said = call("test", "policies/mine.cases.yaml", "policies/mine.yaml")
    assert (said.code, said.out) == (0, "1 case(s), all as expected\n")
    assert call("test").out == said.out


def test_a_changed_policy_runs_the_cases_of_those_that_extend_it(tmp_path):
    write(tmp_path, team="extends: pretrain\n", team_cases=SILENCE, mine="extends: team\n", mine_cases=SILENCE,
          other="extends: base\n", other_cases=SILENCE)  # fmt: skip
    assert call("test", tmp_path / "team.yaml").out.startswith("2 case(s)")
    assert call("test", tmp_path / "mine.yaml").out.startswith("1 case(s)")


def test_a_policy_without_cases_holds_up_no_commit_and_an_empty_folder_is_said(tmp_path):
    write(tmp_path / "policies", mine="version: 1\nextends: pretrain\n")
    said = call("test", tmp_path / "policies" / "mine.yaml")
    assert (said.code, said.out) == (0, f"no cases are about {tmp_path / 'policies' / 'mine.yaml'}\n")
    said = call("test", tmp_path / "policies")
    assert said.code == 2
    assert "write them as NAME.cases.yaml beside NAME.yaml" in said.out
