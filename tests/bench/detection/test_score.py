"""The scores say what they mean: a reader with the labels in hand gets full marks, and each fault costs its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bench_detection
import generator
import ours
import peers
import pytest
import score
from labels import Expected, Run

NAMES = ("isolated_medium", "repeated_wide", "jump_300", "jump_075_flat", "nan_then_spike", "rank_x3", "phase_up")


def incident(expected: Expected, **changed: Any) -> dict[str, Any]:
    """The incident of a replay that reads one label exactly."""
    verb = "record" if expected.kind == "isolated" else "rollback"
    first, last = expected.events[0].step, expected.events[-1].last
    right = {"class": expected.kind, "severity": "high", "onset_step": first, "detected_step": first}
    rest = {"end_step": last, "rank": expected.rank, "actions": [{"step": first, "verb": verb, "args": {}}]}
    return right | rest | changed


def recording(*incidents: dict[str, Any]) -> dict[str, Any]:
    return {"incidents": list(incidents), "actions": [a for i in incidents for a in i["actions"]]}


def exact(run: Run) -> score.Verdict:
    return score.judge(run, recording(*(incident(e) for e in run.expected)))


RUNS = {name: generator.generate(name, 1) for name in NAMES}


def test_exact_readings_get_full_marks() -> None:
    numbers = score.summary([exact(run) for run in RUNS.values()])
    for column in ("isolated", "repeated", "nonfinite", "rank_local", "class right", "own step", "rank in 10"):
        assert numbers[column] == 1.0
    assert (numbers["+3 % in 32"], numbers["+0.75 % in 128"], numbers["NaN, spike"]) == (1.0, 1.0, 1.0)
    assert (numbers["false actions"], numbers["at switches"], numbers["acts on isolated"]) == (0.0, 0.0, 0.0)
    assert numbers["healthy steps"] == 3000.0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"class": "persistent"}, "no rank_local"),
        ({"rank": 99}, "no rank_local"),
        ({"onset_step": 1}, "no rank_local"),
    ],
)
def test_a_wrong_class_rank_or_onset_is_not_right(changed: dict[str, Any], said: str) -> None:
    run = RUNS["rank_x3"]
    verdict = score.judge(run, recording(incident(run.expected[0], **changed)))
    assert verdict.right is False
    assert verdict.rank_named == [False]
    assert said in verdict.why[0]


def test_a_second_incident_beside_the_right_one_is_not_right() -> None:
    run = RUNS["jump_300"]
    (expected,) = run.expected
    beside = incident(expected, **{"class": "isolated"})
    assert score.judge(run, recording(incident(expected), beside)).right is False
    assert score.judge(run, recording(incident(expected), beside | {"severity": "info", "actions": []})).right is True


def test_a_late_detection_is_no_detection() -> None:
    run = RUNS["jump_300"]
    (expected,) = run.expected
    late = score.judge(run, recording(incident(expected, detected_step=expected.by + 1)))
    early = score.judge(run, recording(incident(expected, detected_step=expected.fault + 32)))
    assert [f.delay for f in late.found + early.found] == [None, 32]


def test_an_interval_of_onsets_is_enough_when_it_holds_the_fault() -> None:
    run = RUNS["isolated_medium"]
    first, second = run.expected
    step = first.events[0].step
    wide = recording(incident(first, onset_step=[step - 5, step]), incident(second))
    assert score.judge(run, wide).right is True


def test_every_verb_but_record_is_a_false_action_on_a_healthy_run() -> None:
    run = RUNS["phase_up"]
    planned = run.planned[0]
    event = incident(RUNS["jump_300"].expected[0], detected_step=planned + 4)
    event["actions"] = [{"step": planned, "verb": verb, "args": {}} for verb in ("record", "rollback", "relaunch")]
    verdict = score.judge(run, recording(event))
    assert (verdict.false_incidents, verdict.false_actions, verdict.planned_alarms) == (1, 2, 1)


def test_a_peer_is_judged_by_the_steps_it_fires_at() -> None:
    run = RUNS["nan_then_spike"]
    steps = [m["step"] for m in run.messages if m["type"] == "step"]
    nan, spike = (steps.index(e.fault) for e in run.expected)
    assert [f.delay for f in score.judge_alarms(run, steps, [nan, spike]).found] == [0, 0]
    assert [f.delay for f in score.judge_alarms(run, steps, [nan]).found] == [0, None]
    stuck = list(range(nan, spike + 80))
    assert [f.delay for f in score.judge_alarms(run, steps, stuck).found] == [0, None]
    healthy = RUNS["phase_up"]
    steps = [m["step"] for m in healthy.messages if m["type"] == "step"]
    assert score.judge_alarms(healthy, steps, [100, 101, 105, 500]).false_actions == 2


def test_a_peer_that_is_not_installed_is_named_and_gets_no_numbers() -> None:
    def start() -> peers.Watch:
        raise ModuleNotFoundError("No module named 'nowhere'")

    row = bench_detection.peer_row(peers.Peer("Nowhere", "loss", start), [RUNS["jump_300"]])
    assert row.numbers == {}
    assert "Nowhere: not installed: No module named 'nowhere'" in bench_detection.table([row], markdown=True)


def test_a_rule_without_a_package_makes_a_row() -> None:
    peer = next(p for p in peers.PEERS if p.name.startswith("FlagScale"))
    row = bench_detection.peer_row(peer, [generator.generate("jump_50", 1), generator.generate("plateau", 1)])
    assert row.numbers["persistent"] == 1.0
    assert row.numbers["class right"] is None
    assert "| FlagScale rule, re-typed |" in bench_detection.table([row], markdown=True)


def test_our_replay_is_given_one_file_a_run_in_order() -> None:
    def replay(policy: Path, paths: Sequence[Path]) -> dict[str, Any]:
        assert policy == Path("some.yaml")
        return {"recordings": [{"records": path.read_text().count('"type":"step"')} for path in paths]}

    runs = [RUNS["rank_x3"], RUNS["phase_up"]]
    out = ours.recordings(replay, Path("some.yaml"), runs)
    assert [recording["records"] for recording in out] == [run.steps for run in runs]
