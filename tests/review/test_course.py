"""Plan: the arithmetic of rate, phases, clip and checkpoints over the run, and how it is drawn."""

import pytest

from orchestrator.review.course import course, total_of
from orchestrator.review.plot import curve, lines
from orchestrator.review.replay import replay
from tests.review.recordings import messages, wire
from tests.simulation import policy, policy_of

TEXT = """
schedule: {peak: 0.1, warmup: {for: 100 steps}, decay: {shape: linear, until: 1000 steps, to: 10%}}
phases: {a: {until: 450 steps}, b: {lr: 50%, rewarm: 20 steps, clip: 0.5, grace: 30 steps}}
clip: {max_norm: 1.0}
checkpoints: {every: 200 steps}
"""


def test_the_rate_follows_warm_up_decay_and_phases():
    plan = course(policy_of(TEXT))
    rates, clips = dict(map(tuple, plan["lr"])), dict(map(tuple, plan["clip"]))
    assert plan["steps"] == 1000
    assert rates[1] == pytest.approx(0.001)
    assert rates[100] == pytest.approx(0.1)
    assert rates[450] == pytest.approx(0.1 * (0.1 + 0.9 * (1 - 350 / 900)))
    assert rates[451] == pytest.approx(0.5 / 20 * 0.1 * (0.1 + 0.9 * (1 - 351 / 900)))
    assert rates[1000] == pytest.approx(0.1 * 0.1 * 0.5)
    assert (clips[450], clips[451]) == (1.0, 0.5)


def test_checkpoints_are_counted_with_the_one_before_a_switch():
    assert course(policy_of(TEXT))["checkpoints"]["steps"] == [200, 400, 450, 600, 800, 1000]


def test_phases_begin_and_end_where_the_text_says():
    assert [(p["name"], p["from"], p["until"]) for p in course(policy_of(TEXT))["phases"]] == [
        ("a", 1, 450), ("b", 451, 1000),
    ]  # fmt: skip


def test_the_worst_case_is_seen_late_proved_late_and_saved_just_before():
    reactions = {reaction["class"]: reaction for reaction in course(policy())["reactions"]}
    assert reactions["persistent"]["lost_steps"] == [50 + 300 + 1000, 50 + 300 + 2000, 0]
    assert reactions["isolated"]["lost_steps"] == [0]
    assert reactions["crash"]["lost_steps"] == [1000]


def test_without_a_schedule_the_rate_is_the_trainers():
    plan = course(policy(), 500)
    assert (plan["lr_owner"], plan["steps"]) == ("trainer", 500)
    assert {value for _, value in plan["lr"]} == {1.0}
    assert total_of(policy_of("phases: {a: {until: 70 steps}}")) == 70


def test_a_plan_fits_a_terminal():
    text = lines(course(policy("tiny_gpt")))
    assert max(map(len, text[:16])) <= 90
    assert any("prose: steps 1 to 400, rate 100%" in line for line in text)


def test_bars_are_as_high_as_their_values():
    assert curve([(0, 0.0), (1, 0.5), (2, 1.0)], width=3, height=2) == ["  █", " ██"]


def test_a_rate_of_zero_in_the_first_record_of_warm_up_is_nothing(tmp_path):
    """The first update of a warm-up from nothing may have a rate of zero, and the same loss as the record before."""
    steps = [{**message, "lr": 1e-3 * min(message["step"] - 1, 100) / 100} for message in messages(steps=600)]
    steps[1]["loss"] = steps[0]["loss"]
    answer = replay(policy(), [str(wire(tmp_path / "a.jsonl", steps))])["recordings"][0]
    assert [incident for incident in answer["incidents"] if incident["severity"] != "info"] == []


def test_the_planned_rate_is_a_function_of_the_step_so_a_resume_warms_up_nothing():
    plan = dict(map(tuple, course(policy_of(TEXT))["lr"]))
    later = {step: rate for step, rate in plan.items() if 100 <= step <= 450}
    assert min(later.values()) > 0.05
