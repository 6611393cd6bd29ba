"""Policy cases: the notation, the job that exists only as facts, and what is said when a case fails."""

import math
from pathlib import Path

import pytest

from orchestrator.errors import PolicyError
from orchestrator.review.cases.report import as_junit, run_file
from orchestrator.review.cases.series import numbers, words
from orchestrator.store.policy_text import named, shipped

CLASSES = {"isolated", "repeated", "persistent", "nonfinite", "rank_local"}


def run(folder: Path, text: str):
    """What was wrong with each case of a file about `pretrain`."""
    (folder / "pretrain.cases.yaml").write_text(text)
    return [result.wrong for result in run_file(folder / "pretrain.cases.yaml")]


def test_series_in_short_notation():
    assert numbers("3.2-0.1x3") == pytest.approx((3.2, 3.1, 3.0))
    assert numbers("9x2 _ 1e-3") == (9.0, 9.0, None, 0.001)
    assert [math.isnan(value) for value in numbers("nanx2")] == [True, True]
    assert numbers("inf -inf") == (math.inf, -math.inf)
    assert words("webx2 code2x2 _") == ("web", "web", "code2", "code2", None)


def test_noise_is_bounded_repeatable_and_not_constant():
    values = numbers("2~0.1x500")
    assert values == numbers("2~0.1x500")
    assert max(abs(value - 2) for value in values) <= 0.1
    assert len(set(values)) > 400


@pytest.mark.parametrize("text", ["3.2xx", "a", "3..2", "1x9999999999", "x5"])
def test_what_is_no_series_is_said(text):
    with pytest.raises(ValueError, match=r"is no part of a series|more than"):
        numbers(text)


@pytest.mark.parametrize("name", named())
def test_every_shipped_policy_has_cases_for_all_classes_and_for_silence(name):
    results = run_file(shipped() / f"{name}.cases.yaml")
    expected = [result.case.expect for result in results]
    assert {incident["class"] for incidents in expected for incident in incidents} >= CLASSES
    assert () in expected
    assert {result.case.name: result.wrong for result in results if result.wrong} == {}


def test_a_case_that_fails_says_in_what(tmp_path):
    wrong = run(tmp_path, """
cases:
  - {name: silence, loss: 3~0.01x400 9 3~0.01x300, expect: []}
  - {name: another class, loss: 3~0.01x400 9 3~0.01x300, expect: [{class: persistent, onset: [1, 5]}]}
  - {name: another action, loss: 3~0.01x400 9 3~0.01x300, expect: [{class: isolated, actions: [rollback]}]}
  - {name: nothing happens, loss: 3~0.01x400, expect: [{class: isolated}]}
""")  # fmt: skip
    assert wrong[0][0].startswith("happened, but is not expected: isolated (low) with onset 401, actions [record]")
    assert wrong[1] == (
        "incident 1: class is isolated, expected persistent",
        "incident 1: onset is 401, expected [1, 5]",
    )
    assert wrong[2] == ("incident 1: actions are [record], expected [rollback]",)
    assert wrong[3] == ("expected, but did not happen: {class: isolated}",)


def test_overrides_cadence_and_attempts(tmp_path):
    wrong = run(tmp_path, """
cases:
  - name: the second attempt goes on from the rollback
    set: {checkpoints.healthy_after: 50 steps, limits.rollbacks.max: 1}
    checkpoints: [300, 500]
    attempts:
      - loss: 3~0.01x600 nan
      - loss: 3~0.01x110 nan
    expect:
      - {class: nonfinite, events: 2, actions: [stop, {rollback: {to_step: 500}}, relaunch, stop, hold]}
  - name: every tenth step is logged
    every: 10
    loss: 3~0.01x400 9 3~0.01x300
    expect: [{class: isolated, onset: 4010}]
""")  # fmt: skip
    assert [[text for text in each if "not expected" not in text] for each in wrong] == [[], []]


def test_errors_of_a_case_file_have_their_place(tmp_path):
    with pytest.raises(PolicyError) as error:
        run(tmp_path, "cases:\n  - {nmae: a, loss: 3x, expect: []}\n  - {loss: 3x5}\n")
    lines = str(error.value).splitlines()
    assert "cases.yaml:2:6 ORC020 unknown key 'nmae'; did you mean 'name'?" in lines[0]
    assert "cases.yaml:2:15 ORC020 '3x' is no part of a series" in lines[1]
    assert "cases.yaml:3:5 ORC020 a case is a mapping with `expect:`" in lines[2]


def test_junit_tells_failures_and_escapes(tmp_path):
    (tmp_path / "pretrain.cases.yaml").write_text(
        "cases:\n  - {name: '<a> & \"b\"', loss: 3x5, expect: [{class: x}]}\n"
    )
    text = as_junit(run_file(tmp_path / "pretrain.cases.yaml"))
    assert 'tests="1" failures="1"' in text
    assert "&lt;a&gt; &amp;" in text
