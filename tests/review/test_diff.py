"""Diff: by meaning and not by text, and by the decisions on recordings; readable, and safe to post."""

import json
import subprocess

import pytest

from orchestrator.core.policy import Policy
from orchestrator.errors import ConfigError
from orchestrator.review import revision
from orchestrator.review.diff import report
from orchestrator.review.diff.clauses import changed
from orchestrator.review.diff.decisions import on
from orchestrator.store.policy_text import checked, load_text, shipped
from tests.review.recordings import broken, messages, raised, spiked, wire
from tests.simulation import policy

SOFTER = {"spikes__persistent__respond": "[[{lr: 70%}], [hold]]", "limits__rollbacks__max": "2"}


def of(text):
    return checked(load_text(text, "p.yaml", shipped()))


def test_a_moved_key_and_another_spelling_are_no_change():
    one = of("extends: pretrain\nclip: {max_norm: 1}\ncheckpoints: {every: 2K steps, margin: 20 steps}\n")
    other = of("checkpoints:\n  every: 2000 steps\nextends: pretrain\n")
    assert changed(one, other) == []


def test_clauses_that_changed_are_named_with_both_values():
    clauses = {clause.path: clause for clause in changed(policy(), policy(limits__rollbacks__max="5", mode="observe"))}
    assert set(clauses) == {"limits.rollbacks.max", "mode"}
    limit = clauses["limits.rollbacks.max"]
    assert (limit.old, limit.new, limit.effect) == ("3", "5", "looser")
    assert limit.meaning == "At most `max` rollbacks in `per` steps of the frontier."


def test_rungs_detectors_and_phases_are_clauses():
    old = of("version: 1\nphases: {a: {until: 10 steps}, b: {until: 20 steps}}\ndetectors: {x: {kind: nonfinite}}\n")
    new = of("version: 1\nphases: {b: {until: 20 steps}, a: {until: 10 steps}}\n"
             "spikes: {nonfinite: {respond: [[hold]]}}\n")  # fmt: skip
    clauses = {clause.path: clause for clause in changed(old, new)}
    assert (clauses["phases"].old, clauses["phases"].new) == ("a, b", "b, a")
    assert clauses["detectors.x.kind"].new is None
    assert clauses["detectors.x.kind"].effect == "looser"
    assert (clauses["spikes.nonfinite.respond.rung 1"].old, clauses["spikes.nonfinite.respond.rung 1"].new) == (
        None, "[hold]",
    )  # fmt: skip


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Ten recorded runs; in three of them something happens that the two policies answer differently."""
    folder = tmp_path_factory.mktemp("runs")
    changes = [raised, spiked, broken, raised, *[lambda step, value: value] * 3, spiked, broken, raised]
    return [str(wire(folder / f"{i}.jsonl", messages(change, 3400))) for i, change in enumerate(changes)]


def test_the_table_names_exactly_the_incidents_where_they_part(recordings):
    compared = on(policy(), policy(**SOFTER), recordings)
    parted = [i for i, each in enumerate(compared) if each.differences]
    assert parted == [0, 3, 9]
    for i in parted:
        (difference,) = compared[i].differences
        assert "actions" in difference.what
        assert "rollback" in [action["verb"] for action in difference.old["actions"]]
        assert [action["verb"] for action in difference.new["actions"]] == ["lr"]


def test_the_same_policies_part_nowhere(recordings):
    compared = on(policy(), policy(), recordings[:3])
    assert [each.differences for each in compared] == [(), (), ()]
    assert [each.same for each in compared] == [1, 1, 1]


def test_what_only_one_of_them_sees_is_told(recordings):
    (each,) = on(policy(), policy(detectors="{finite: {kind: nonfinite}}", spikes__nonfinite__respond="[[hold]]"),
                 recordings[1:2])  # fmt: skip
    assert each.differences or each.same == 1
    blind = Policy(detectors={"finite": {"kind": "nonfinite"}})
    (each,) = on(policy(), blind, recordings[1:2])
    assert [difference.what for difference in each.differences] == [("no longer seen",)]


def test_markdown_explains_itself_and_json_is_strict(recordings):
    old, new = policy(), policy(**SOFTER)
    told = (("old", "new"), changed(old, new), on(old, new, recordings[:2]))
    text = report.as_markdown(*told)
    assert "; on 2 recordings 1 of 2 incidents would be met differently." in text
    assert "| A level that does not come back: what is done the first time. |" in text
    assert "the loss left its level and did not come back \\(persistent, high\\): 20.0 % above the old level" in text
    assert "roll back to the checkpoint of step 2000" in text
    assert "learning rate to 70% of its plan" in text
    assert "Both policies were asked at every incident" in text
    json.dumps(report.as_json(*told), allow_nan=False)


def test_text_of_others_is_escaped():
    old = Policy(phases={})
    new = of("version: 1\nphases: {'<img src=x>|@team': {until: 10 steps}}\n")
    text = report.as_markdown(("a|b`c", "new"), changed(old, new), ())
    assert "<img src=x>|" not in text
    assert "`` a\\|b`c ``" in text


# --- git ---------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two commits of a policy and of the one that it extends."""
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org"]
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "team.yaml").write_text("version: 1\nextends: base\nlimits: {rollbacks: {max: 2}}\n")
    (tmp_path / "policies" / "mine.yaml").write_text("version: 1\nextends: team\n")
    subprocess.run([*git, "init", "-q", "-b", "main", "."], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    (tmp_path / "policies" / "team.yaml").write_text("version: 1\nextends: base\nlimits: {rollbacks: {max: 1}}\n")
    subprocess.run([*git, "commit", "-qam", "two"], check=True)
    return tmp_path


def test_a_revisions_policy_extends_what_stood_beside_it_then(repository):
    assert checked(revision.load("HEAD~1:policies/mine.yaml")).limits.rollbacks.max == 2
    assert checked(revision.load("main:policies/mine.yaml")).limits.rollbacks.max == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("--output=x:policies/mine.yaml", "cannot begin with '-'"),
        ("nowhere:policies/mine.yaml", "no such revision"),
        ("main:policies/gone.yaml", "no such file"),
        (":policies/mine.yaml", "be empty"),
    ],
)
def test_a_revision_that_cannot_be_had_is_said(repository, name, why):
    with pytest.raises(ConfigError, match=why):
        revision.load(name)
    assert not (repository / "x").exists()


def test_a_link_in_a_revision_is_not_followed(repository):
    (repository / "policies" / "link.yaml").symlink_to("/etc/hostname")
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "three"], check=True)
    with pytest.raises(ConfigError, match="no such file"):
        revision.load("main:policies/link.yaml")
