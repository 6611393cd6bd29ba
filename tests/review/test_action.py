"""The GitHub action's scripts on a real repository with two branches, and with a stand-in for `gh`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.review.recordings import messages, raised, wire

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / ".github" / "actions" / "policy-review"
CASES = "cases:\n  - {name: silence, loss: 3~0.01x300, expect: []}\n"


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def repository(tmp_path):
    """`main` with a policy, its cases and a recording; `change` with a gentler answer."""
    place = tmp_path / "repository"
    (place / "policies").mkdir(parents=True)
    (place / "recordings").mkdir()
    wire(place / "recordings" / "night.jsonl", messages(raised, 3400))
    (place / "recordings" / "README.md").write_text("What these nights were.\n")
    (place / "policies" / "mine.yaml").write_text("version: 1\nextends: pretrain\n")
    (place / "policies" / "mine.cases.yaml").write_text(CASES)
    git(place, "init", "-q", "-b", "main", ".")
    commit(place, "one")
    git(place, "checkout", "-q", "-b", "change")
    return place


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@example.org", *words], cwd=place, check=True)


def commit(place: Path, message: str) -> None:
    git(place, "add", ".")
    git(place, "commit", "-qm", message)


def review(place: Path, tmp_path: Path, base: str = "main", **given: str) -> tuple[int, str, Path]:
    command = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -P -m orchestrator.cli "$@"\n'
    out = tmp_path / "out"
    env = {**os.environ, "BASE": base, "RECORDINGS": "recordings", "OUT": str(out),
           "ORCHESTRATE": str(script(tmp_path / "orchestrate", command)), **given}  # fmt: skip
    done = subprocess.run(
        ["bash", str(ACTION / "review.sh")], cwd=place, env=env, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout + done.stderr, out


def test_a_change_is_argued_with_the_recordings(repository, tmp_path):
    (repository / "policies" / "mine.yaml").write_text(
        "version: 1\nextends: pretrain\nspikes: {persistent: {respond: [[{lr: 70%}], [hold]]}}\n"
    )
    commit(repository, "two")
    code, said, out = review(repository, tmp_path)
    comment = (out / "comment.md").read_text()
    assert code == 0, said
    assert comment.startswith("<!-- orchestrate policy review -->\n")
    assert "`spikes.persistent.respond.rung 1`" in comment
    assert "`./recordings/night.jsonl`" in comment
    assert "learning rate to 70% of its plan" in comment
    assert json.loads((out / "lint.sarif").read_text())["version"] == "2.1.0"
    assert 'failures="0"' in (out / "cases.xml").read_text()


def test_folders_with_blanks_and_a_slash_at_their_end_are_the_same_folders(repository, tmp_path):
    git(repository, "mv", "policies", "our policies")
    git(repository, "mv", "recordings", "old nights")
    commit(repository, "moved")
    git(repository, "branch", "-f", "main")
    (repository / "our policies" / "mine.yaml").write_text("version: 1\nextends: base\nlimits: {rollbacks: {max: 2}}\n")
    commit(repository, "two")
    code, said, out = review(repository, tmp_path, POLICIES="our policies/", RECORDINGS="old nights/")
    comment = (out / "comment.md").read_text()
    assert code == 0, said
    assert "is new" not in comment
    assert "`./old nights/night.jsonl`" in comment


def test_findings_are_annotations_and_fail(repository, tmp_path):
    (repository / "policies" / "mine.yaml").write_text("version: 1\nextends: pretrain\nlimits: {lr_floor: 1%}\n")
    commit(repository, "two")
    code, said, _ = review(repository, tmp_path)
    assert code == 1
    assert "::warning file=policies/mine.yaml,line=3,col=10,title=ORC143::" in said


def test_nothing_new_is_said_as_that(repository, tmp_path):
    (repository / "policies" / "mine.yaml").write_text("extends: pretrain\nversion: 1\n")
    commit(repository, "two")
    code, _, out = review(repository, tmp_path)
    assert code == 0
    assert "No policy in force differs from the base." in (out / "comment.md").read_text()


def test_new_and_removed_policies_are_named(repository, tmp_path):
    git(repository, "mv", "policies/mine.yaml", "policies/yours.yaml")
    git(repository, "rm", "-q", "policies/mine.cases.yaml")
    commit(repository, "two")
    code, said, out = review(repository, tmp_path)
    comment = (out / "comment.md").read_text()
    assert code == 0, said
    assert "`policies/yours.yaml` is new." in comment
    assert "`policies/mine.yaml` is gone." in comment


def test_a_base_that_is_not_there_is_an_error_of_the_review(repository, tmp_path):
    code, said, _ = review(repository, tmp_path, base="--upload-pack=x")
    assert code == 2
    assert "not in this checkout" in said


SHA = "4f" * 20
REVIEW = "<!-- orchestrate policy review -->\nhello\n"


def comment(tmp_path, body, known="", head=SHA, number="7"):
    """What comment.sh said, what it wrote by a `gh` that knows these comments and one pull request, and its output."""
    log, output = tmp_path / "calls", tmp_path / "output"
    log.touch()
    output.touch()
    answers = f'*--paginate*) printf "{known}\\n";; *pulls/7*) echo {SHA};; *) echo "$*" >> "{log}";;'
    script(tmp_path / "gh", f'#!/bin/sh\ncase "$*" in {answers} esac\n')
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "REPOSITORY": "o/r",
        "NUMBER": number,
        "HEAD": head,
        "COMMENT": str(body),
        "GITHUB_OUTPUT": str(output),
    }
    done = subprocess.run(
        ["bash", str(ACTION / "comment.sh")], env=env, capture_output=True, text=True, timeout=30, check=False
    )
    return done, log.read_text(), output.read_text()


@pytest.fixture
def body(tmp_path):
    path = tmp_path / "comment.md"
    path.write_text(REVIEW)
    return path


@pytest.mark.parametrize(("known", "call"), [("", "POST repos/o/r/issues/7/comments"),
                                             ("41\n52", "PATCH repos/o/r/issues/comments/41 ")])  # fmt: skip
def test_one_comment_is_posted_and_then_updated(tmp_path, body, known, call):
    done, calls, output = comment(tmp_path, body, known)
    assert done.returncode == 0, done.stderr
    assert call in calls
    assert f"body=@{body}" in calls
    assert output == "number=7\n"


def test_a_run_of_another_commit_has_no_word_in_a_pull_request(tmp_path, body):
    done, calls, output = comment(tmp_path, body, head="5e" * 20)
    assert (done.returncode, calls, output) == (0, "", "")


def test_what_a_pull_request_left_is_taken_as_a_text_and_a_number_or_not_at_all(tmp_path, body):
    assert comment(tmp_path, body, number="7;x")[0].returncode == 2
    link = tmp_path / "link.md"
    link.symlink_to(body)
    assert comment(tmp_path, link)[0].returncode == 2
    body.write_text("buy this\n")
    done, calls, _ = comment(tmp_path, body)
    assert (done.returncode, calls) == (2, "")
