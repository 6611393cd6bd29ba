"""A recording whose resume lost the schedule's position: the warm-up runs a second time, nobody asked for it."""

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
