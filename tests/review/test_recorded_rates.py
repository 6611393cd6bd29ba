"""What the learning rate of a recording tells: a warm-up begun again, and which zeros are harmless."""

import pytest

from orchestrator.review.replay import replay
from orchestrator.store.policy_text import load_text, read, shipped
from tests.review.recordings import messages, wire

RESUME = {"type": "run", "attempt": 2, "start_step": 2400}


def recording(path, rate):
    """2400 steps at 2e-3, a restart, 600 more with the rate of `rate`, the loss a little higher meanwhile."""
    before = [{**message, "lr": 2e-3} for message in messages(steps=2400)]
    after = [
        {**message, "lr": rate(message["step"]), "loss": message["loss"] + 0.01}
        for message in messages(steps=600, first=2401)
    ]
    return str(wire(path, before, [RESUME], after))


def mismatches(policy, path):
    incidents = replay(policy, [path])["recordings"][0]["incidents"]
    return [incident for incident in incidents if incident["class"] == "lr_mismatch"]


def again(step):
    return min(2e-6 * (step - 2400), 2e-3)


@pytest.mark.parametrize("name", ["pretrain", "observe"])
def test_it_is_an_alarm_at_the_first_record(tmp_path, name):
    (incident,) = mismatches(read(name), recording(tmp_path / "a.jsonl", again))
    assert (incident["onset_step"], incident["detected_step"], incident["severity"]) == (2401, 2401, "medium")


def test_a_resume_at_the_old_rate_is_none(tmp_path):
    assert mismatches(read("pretrain"), recording(tmp_path / "a.jsonl", lambda step: 2e-3)) == []


def test_a_rewarm_that_the_policy_asks_for_is_none(tmp_path):
    """The phase that begins where the run was resumed warms up anew."""
    text = "extends: pretrain\nphases: {web: {until: 2400 steps}, code: {rewarm: 1000 steps, grace: 1000 steps}}\n"
    policy = load_text(text, "p.yaml", shipped()).policy
    assert mismatches(policy, recording(tmp_path / "a.jsonl", again)) == []
    late = text.replace("2400", "2000")
    assert len(mismatches(load_text(late, "p.yaml", shipped()).policy, recording(tmp_path / "b.jsonl", again))) == 1


def told(path, rate, total=900):
    """The incidents of a run of so many declared steps with the rate of `rate`; its first two losses are equal."""
    head = {"type": "run", "attempt": 1, "total_steps": total}
    steps = [{**message, "lr": rate(message["step"])} for message in messages(steps=total)]
    steps[1]["loss"] = steps[0]["loss"]
    answer = replay(read("pretrain"), [str(wire(path, [head], steps))])["recordings"][0]
    return [(incident["class"], incident["onset_step"]) for incident in answer["incidents"]]


def test_a_rate_of_zero_where_the_warm_up_begins_and_where_the_schedule_ends_is_harmless(tmp_path):
    assert told(tmp_path / "a.jsonl", lambda step: 4e-4 * min((step - 1) / 90, (900 - step) / 500, 1.0)) == []
    assert told(tmp_path / "b.jsonl", lambda step: max(4e-4 * min((step - 1) / 90, (880 - step) / 500, 1.0), 0.0)) == []


def test_in_mid_run_it_is_not(tmp_path):
    assert told(tmp_path / "a.jsonl", lambda step: 0.0 if 500 <= step < 520 else 4e-4) == [("silent", 500)]
