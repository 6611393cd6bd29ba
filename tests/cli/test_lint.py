"""orchestrate lint: every fault at its place, in every format; allowances; the job's abilities."""

import json
import re

import pytest

from tests.cli.calling import call

PLANTED = """\
version: 2
extends: base
mode: acct
propse: {wait: 30m}
clip:
  max_norm: yes
checkpoints:
  every: 1000
  marign: 20 steps
  healthy_after: 30 steps
  keep: {last: 1, healthy: 2}
detectors:
  loss: {kind: robust_zz}
  level: {kind: level_shift, above: half}
  extra: {threshold: 6}
spikes:
  isolated: {severity: hgih}
  repeated:
    respond:
      - [{lr: 100%}]
      - [hold]
  persistent:
    confirm: {four: 50 steps, for: 1h}
    respond:
      - [rollback, {lr: 50%}]
      - [hold]
      - [relaunch]
  nonfinite:
    respond: [[rollbak]]
limits:
  rollbacks: {max: 3, max: 4}
  quarantine: {max_share: 200%}
phases:
  web: {}
  code: {lr: 50%, grace: 10 steps, rewarm: 20 steps}
"""
FAULTS = [
    (1, 10, "ORC013"), (3, 7, "ORC013"), (4, 1, "ORC010"), (6, 13, "ORC013"), (8, 10, "ORC013"),
    (9, 3, "ORC010"), (10, 3, "ORC124"), (11, 10, "ORC120"), (13, 16, "ORC012"), (14, 37, "ORC013"),
    (15, 3, "ORC011"), (17, 24, "ORC013"), (20, 10, "ORC108"), (23, 15, "ORC010"), (23, 36, "ORC013"),
    (25, 10, "ORC103"), (27, 9, "ORC102"), (29, 16, "ORC013"), (31, 23, "ORC002"), (32, 27, "ORC013"),
    (34, 3, "ORC151"), (35, 19, "ORC150"),
]  # fmt: skip


@pytest.fixture
def planted(tmp_path):
    path = tmp_path / "planted.yaml"
    path.write_text(PLANTED)
    return path


def test_one_run_names_every_planted_fault_at_its_line_and_column(planted):
    said = call("lint", planted, "--format", "json")
    found = [(f["line"], f["column"], f["code"]) for f in json.loads(said.out)["findings"]]
    assert said.code == 1
    assert [fault for fault in FAULTS if fault not in found] == []
    assert len(FAULTS) >= 20


def test_text_is_file_line_column_code_message(planted):
    lines = call("lint", planted).out.splitlines()
    assert f"{planted}:4:1 ORC010 unknown key 'propse'; did you mean 'propose'?" in lines


def test_github_annotations_are_workflow_commands(planted):
    lines = call("lint", planted, "--format", "github").out.splitlines()
    first = next(line for line in lines if "propse" in line)
    assert first.startswith("::error file=")
    assert ",line=4,col=1,title=ORC010::unknown key 'propse'" in first
    assert all(line.startswith(("::error ", "::warning ")) for line in lines)


def sarif_of(*words):
    """The one run of a log: what SARIF 2.1.0 and GitHub's code scanning ask of every log is asserted here."""
    log = json.loads(call("lint", *words, "--format", "sarif").out)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["shortDescription"]["text"].endswith(".")
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("note", "warning", "error")
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("note", "warning", "error")
        assert result["message"]["text"]
        assert len(result["locations"]) == 1
    return run


def places(run):
    """Where the results stand; a URI reference of SARIF has no characters but those of RFC 3986."""
    found = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    for place in found:
        assert re.fullmatch(r"(%[0-9A-F]{2}|[A-Za-z0-9._~!$&'()*+,;=:@/-])+", place["artifactLocation"]["uri"])
    return found


def test_sarif_has_every_fault_at_its_place(planted):
    run = sarif_of(planted)
    regions = [place["region"] for place in places(run)]
    told = zip(regions, run["results"], strict=True)
    found = [(region["startLine"], region["startColumn"], result["ruleId"]) for region, result in told]
    assert [fault for fault in FAULTS if fault not in found] == []


def test_sarif_of_nothing_found_has_an_empty_list():
    assert sarif_of("pretrain")["results"] == []


def test_a_files_name_becomes_a_uri_relative_to_the_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "50% more #1 ä.yaml").write_text("version: 2\nextends: base\n")
    (place,) = places(sarif_of("50% more #1 ä.yaml"))
    assert place["artifactLocation"]["uri"] == "50%25%20more%20%231%20%C3%A4.yaml"
    (gone,) = places(sarif_of(tmp_path.parent / "not there.yaml"))
    assert gone["artifactLocation"]["uri"].startswith("file:///")


def test_an_override_is_no_file_to_open():
    (result,) = sarif_of("pretrain", "mode=acct")["results"]
    assert result["locations"] == [{"logicalLocations": [{"fullyQualifiedName": "override 'mode=acct':1:6"}]}]
    said = call("lint", "pretrain", "mode=acct", "--format", "github").out
    assert said.startswith("::error title=ORC013::override 'mode=acct':1:6: mode: 'acct' is none of")


def test_the_shipped_policies_are_clean():
    said = call("lint", "base", "pretrain", "continued", "finetune", "observe", "tiny_gpt")
    assert said.code == 0, said.out


def test_a_clean_policy_exits_0_and_an_empty_call_2():
    assert call("lint", "pretrain").code == 0
    assert call("lint").code == 2
    assert call("lint", "pretrian").code == 2


def test_every_code_has_its_page():
    page = call("lint", "--explain", "orc120")
    assert page.code == 0
    assert page.out.startswith("ORC120 (error): Rollback with a retention below two\n\n")
    wrong = call("lint", "--explain", "ORC999")
    assert wrong.code == 2
    assert "known are ORC001" in wrong.out


def test_a_finding_is_allowed_with_a_reason_only(tmp_path):
    path = tmp_path / "p.yaml"
    text = "version: 1\nextends: base\nlimits:\n  {}rollbacks: {{max: 9}}{}\n"
    path.write_text(text.format("", ""))
    assert "ORC143" in call("lint", path).out
    path.write_text(text.format("", "  # orchestrate: allow ORC143 because the data is rough"))
    assert call("lint", path).code == 0
    path.write_text(text.format("# orchestrate: allow ORC143 because the data is rough\n  ", ""))
    assert call("lint", path).code == 0
    path.write_text(text.format("", "  # orchestrate: allow ORC143"))
    assert {"ORC143", "ORC008"} <= set(call("lint", path).out.split())
    path.write_text(text.format("", "  # orchestrate: allow ORC143, ORC121 because the data is rough"))
    assert "ORC009 ORC121 is not found here" in call("lint", path).out


def test_what_the_schema_finds_cannot_be_allowed(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("version: 1\nmoed: act  # orchestrate: allow ORC010 because it is known\n")
    assert "ORC010 unknown key 'moed'" in call("lint", path).out


def test_a_policys_place_is_the_file_that_says_it(tmp_path):
    (tmp_path / "mine.yaml").write_text("version: 1\nextends: team\n")
    (tmp_path / "team.yaml").write_text("version: 1\nextends: base\ncheckpoints:\n  every: 10 stpes\n")
    assert call("lint", tmp_path / "mine.yaml").out.startswith(f"{tmp_path / 'team.yaml'}:4:10 ORC013")


def conf(folder, **job):
    (folder / "conf").mkdir()
    (folder / "conf" / "job.yaml").write_text(json.dumps({
        "policy": "pretrain", "run": {"dir": "runs/x"}, "job": {"command": ["train"], **job.pop("job", {})}, **job,
    }))  # fmt: skip
    return folder / "conf" / "job.yaml"


def test_what_the_job_cannot_do_is_said(tmp_path):
    said = call("lint", "tiny_gpt", "--conf", conf(tmp_path, telemetry={"kind": "csv"}))
    codes = set(said.out.split())
    assert said.code == 1
    assert {"ORC201", "ORC202", "ORC203", "ORC204", "ORC206"} <= codes


def test_tokens_of_the_command_line_are_abilities(tmp_path):
    job = {"command": ["train", "--lr-scale={lr_scale}", "--load={checkpoint}", "--skip={quarantine}"]}
    said = call("lint", "pretrain", "--conf", conf(tmp_path, job=job, telemetry={"kind": "csv"}))
    assert not {"ORC201", "ORC203", "ORC204"} & set(said.out.split())


def test_declared_abilities_win(tmp_path):
    job = {"command": ["t", "{lr_scale}", "{checkpoint}"], "can": {"relaunch_lr": "ignored"}}
    said = call("lint", "pretrain", "--conf", conf(tmp_path, job=job, telemetry={"kind": "csv"}))
    assert "ORC201 this job cannot change its rate: the checkpoint brings the old rate back" in said.out


def test_a_trainer_that_deletes_what_a_rollback_needs_is_named(tmp_path):
    job = {"command": ["train", "--save_total_limit", "2"]}
    said = call("lint", "pretrain", "--conf", conf(tmp_path, job=job))
    assert "ORC207 job.command keeps 2 checkpoint(s) (--save_total_limit)" in said.out


def test_the_hook_can_do_all(tmp_path):
    assert call("lint", "tiny_gpt", "--conf", conf(tmp_path)).code == 0


def test_overrides_are_linted_and_pointed_at():
    said = call("lint", "pretrain", "limits.rollbacks.max=many")
    assert said.code == 1
    assert said.out.startswith("override 'limits.rollbacks.max=many':1:22 ORC013")
    assert call("lint", "pretrain", "limits.rollbacks.max=2").code == 0


def test_a_file_that_is_not_there_is_a_finding(tmp_path):
    said = call("lint", tmp_path / "gone.yaml")
    assert said.code == 1
    assert "ORC004 cannot be read: No such file" in said.out
