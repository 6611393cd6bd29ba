"""The commands as a newcomer and a script meet them: help, exit codes, JSON, completion, and no torch."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli import COMMANDS
from orchestrator.config import load
from orchestrator.errors import ConfigError
from tests.cli.calling import call
from tests.review.recordings import messages, raised, run_of, wire

REVIEW = ("lint", "show", "plan", "test", "replay", "diff", "schema")
BLOCKER = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise AssertionError(f"{{name}} was imported")
sys.meta_path.insert(0, Blocked())
from orchestrator.cli import main
main()
"""


def shell(*words, blocked=(), env=()):
    """A command in a process of its own."""
    code = BLOCKER.format(blocked=set(blocked))
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), **dict(env)}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, timeout=60, env=environment
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_to_type_next(name):
    said = call(name, "--help")
    assert said.code == 0
    assert "Example" in said.out
    assert f"orchestrate {name}" in " ".join(said.out.split())
    example = said.out[said.out.index("Example") :].splitlines()
    assert all(shlex.split(line) for line in example), "an example can be copied line by line"


def test_the_first_help_lists_every_command_and_where_to_begin():
    said = call("--help")
    assert all(name in said.out for name in COMMANDS)
    assert "Begin with" in said.out


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_imports_torch(name):
    done = shell(name, "--help", blocked=("torch",))
    assert done.returncode == 0, done.stderr


def test_the_review_commands_import_neither_torch_nor_hydra(tmp_path):
    recording = wire(tmp_path / "a.jsonl", messages(steps=100))
    calls = [
        ("lint", "pretrain"), ("show", "pretrain"), ("plan", "tiny_gpt"), ("schema",),
        ("replay", "pretrain", recording), ("diff", "pretrain", "observe", "--on", recording),
    ]  # fmt: skip
    for words in calls:
        done = shell(*words, blocked=("torch", "hydra", "omegaconf", "numpy"))
        assert done.returncode == 0, (words, done.stderr)


def test_what_reads_a_run_imports_no_torch(tmp_path):
    run = tmp_path / "run"
    run_of(run, lambda attempt, step: None)
    calls = [
        ("status", run, "--json"), ("checkpoints", run, "--json"), ("quarantine", run), ("replay", "pretrain", run),
        ("watch", run, "--once"), ("report", run, "-o", tmp_path / "report.html"), ("silence", run, "list"),
        ("ctl", run, "lr", "50%"),
    ]  # fmt: skip
    for words in calls:
        done = shell(*words, blocked=("torch", "hydra"))
        assert "was imported" not in done.stderr, words
        assert done.returncode == 0 or words[0] == "ctl", (words, done.stderr)


def test_shards_are_left_out_or_released_with_a_reason_where_the_run_is_not_over(tmp_path):
    run = tmp_path / "run"
    run_of(run, lambda attempt, step: None)
    for words, said in (
        (("add", "web-00012"), "Missing option '--why'"),
        (("release", "web-00012", "--why", "fine"), "not in quarantine: web-00012"),
        (("add", "web-00012", "--why", "markup"), "the run is completed"),
    ):
        done = shell("quarantine", run, *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not list((run / "orders").glob("*"))


def test_what_looks_at_a_project_imports_no_torch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell("init", "--command", "python train.py", blocked=("torch",)).check_returncode()
    name = next(path.stem for path in (tmp_path / "conf").glob("*.yaml"))
    for words in (("doctor", f"conf={name}"), ("submit", "--print", f"conf={name}", "launcher.kind=slurm"), ("test",)):
        done = shell(*words, blocked=("torch",))
        assert "was imported" not in done.stderr, (words, done.stderr)
        assert done.returncode in (0, 1, 2), (words, done.stderr)


def test_lint_imports_only_what_it_needs():
    done = shell(
        "lint", "pretrain", blocked=("torch", "hydra", "msgspec", "rich", "fsspec", "psutil", "numpy", "tenacity")
    )
    assert done.returncode == 0, done.stderr


def test_completion_knows_commands_policies_and_formats():
    def complete(*words):
        env = {
            "_ORCHESTRATE_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        code = "import sys; sys.argv[0] = 'orchestrate'; from orchestrator.cli import main; main()"
        root = Path(__file__).resolve().parents[2]
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
            env={**os.environ, **env, "PYTHONPATH": str(root)},
        ).stdout  # fmt: skip

    assert "replay" in complete("orchestrate", "rep")
    assert "ORC121" in complete("orchestrate", "lint", "--explain", "orc12")
    assert "huggingface" in complete("orchestrate", "checkpoints", "--layout", "hu")
    assert "pretrain" in complete("orchestrate", "lint", "pre")
    assert "megatron" in complete("orchestrate", "replay", "pretrain", "a.log", "--format", "mega")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_in_a_real_bash_names_are_completed_and_where_there_are_none_files(tmp_path):
    root = Path(__file__).resolve().parents[2]
    code = "import sys; sys.argv[0] = 'orchestrate'; from orchestrator.cli import main; main()"
    program = tmp_path / "orchestrate"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{root}" exec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(_ORCHESTRATE_COMPLETE=bash_source orchestrate)"
        compopt() { asked="${@: -1}"; }    # of a shell that reads from a terminal
        try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); asked=; _orchestrate_completion orchestrate
                echo "$asked|${COMPREPLY[*]}"; }
        try orchestrate rep
        try orchestrate lint pre
        try orchestrate diff base obs
        try orchestrate lint ./x
    """
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout.splitlines() == ["|report replay", "default|pretrain", "default|observe", "default|"]


@pytest.mark.parametrize("words", [("show", "pretrain", "--json"), ("plan", "pretrain", "--json"), ("schema",)])
def test_json_is_json(words):
    said = call(*words)
    assert said.code == 0
    json.loads(said.out)


def test_replay_and_diff_as_json_and_as_text(tmp_path):
    recording = wire(tmp_path / "a.jsonl", messages(raised, 3400))
    answer = json.loads(call("replay", "pretrain", recording, "--json").out)["recordings"][0]
    assert answer["recording"] == str(recording)
    assert answer["steps"] == 3400
    assert "rollback" in call("replay", "pretrain", recording).out
    differing = call("diff", "pretrain", "base", "--on", recording, recording, "--format", "json", "--exit-code")
    assert differing.code == 1
    assert len(json.loads(differing.out)["recordings"]) == 2
    assert call("diff", "pretrain", "pretrain", "--exit-code").code == 0
    assert call("diff", "pretrain", "base").code == 0


def test_usage_is_2(tmp_path):
    assert call("replay", "pretrain", tmp_path / "gone").code == 2
    assert call("replay", "pretrain").code == 2
    assert call("diff", "pretrain", "nowhere").code == 2
    assert call("show", "pretrain", "limits.rollbacks.max=many").code == 2
    assert call("test", "nowhere").code == 2
    assert call("plan", "pretrain", "--steps", "0").code == 2


def test_cases_fail_with_1_and_write_junit(tmp_path):
    (tmp_path / "pretrain.cases.yaml").write_text("cases:\n  - {name: a, loss: 3x5, expect: [{class: isolated}]}\n")
    said = call("test", tmp_path, "--junit", tmp_path / "out.xml")
    assert said.code == 1
    assert "FAILED a" in said.out
    assert 'failures="1"' in (tmp_path / "out.xml").read_text()
    told = json.loads(call("test", tmp_path, "--json").out)["cases"]
    assert told[0]["wrong"] == ["expected, but did not happen: {class: isolated}"]


def test_a_plan_is_drawn_where_matplotlib_is(tmp_path):
    pytest.importorskip("matplotlib")
    assert call("plan", "tiny_gpt", "--png", tmp_path / "plan.png").code == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_it_says_what_is_missing(tmp_path):
    code = "import sys; sys.modules['matplotlib.figure'] = None\nfrom orchestrator.cli import main; main()"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", "pretrain", "--png", str(tmp_path / "p.png")],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install matplotlib" in done.stderr


def test_no_colour_where_there_is_no_terminal(tmp_path):
    recording = wire(tmp_path / "a.jsonl", messages(raised, 3400))
    for words in (("plan", "tiny_gpt"), ("replay", "pretrain", recording), ("lint", "pretrain")):
        assert "\x1b" not in shell(*words).stdout


def test_a_value_left_open_in_the_configuration_is_named(tmp_path):
    """It is `team` that is missing, not what only refers to it; and no folder is made for it."""
    (tmp_path / "conf").mkdir()
    text = "policy: pretrain\nteam: ???\nrun: {dir: 'runs/${team}/one'}\njob: {command: [train]}\n"
    (tmp_path / "conf" / "job.yaml").write_text(text)
    said = call("lint", "pretrain", "--conf", tmp_path / "conf" / "job.yaml")
    assert said.code == 1
    assert "ORC200 team is not set; add team=VALUE" in said.out
    assert not list(tmp_path.glob("**/*[?]*"))


@pytest.fixture
def job(tmp_path):
    """The first words of a command line: a configuration with an environment and a note."""
    (tmp_path / "conf").mkdir()
    text = "policy: pretrain\nrun: {dir: runs/x}\njob: {command: [train], env: {CARDS: ''}, note: ''}\n"
    (tmp_path / "conf" / "job.yaml").write_text(text)
    return f"conf={tmp_path / 'conf' / 'job.yaml'}"


def test_commas_equals_and_quotes_in_an_override_are_one_string(job):
    config = load([job, "job.env.CARDS='bond0:2,bond1:4'", 'job.note="tau=0.3, it\'s late"'])
    assert config.job.env["CARDS"] == "bond0:2,bond1:4"
    assert config.values["job"]["note"] == "tau=0.3, it's late"


@pytest.mark.parametrize(
    ("word", "column", "written"),
    [("job.env.CARDS=bond0:2,bond1:4", 22, "'job.env.CARDS=\"bond0:2,bond1:4\"'"),
     ("job.note=tau=0.3", 13, "'job.note=\"tau=0.3\"'"),
     ("job.note=it's late", 12, "'job.note=\"it'\"'\"'s late\"'")],
)  # fmt: skip
def test_an_override_without_its_quotes_is_said_with_its_column_and_how_to_write_it(job, word, column, written):
    with pytest.raises(ConfigError) as told:
        load([job, word])
    assert str(told.value).startswith(f"override {word!r}, column {column}: ")
    assert str(told.value).endswith(written)
    (right,) = shlex.split(written)
    assert load([job, right]).values["job"]
