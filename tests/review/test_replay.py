"""Replay: the same decisions as live, teacher-forced on whatever was recorded, honest about what it cannot know."""

import json

import pytest

from orchestrator.core.facts import Decision, Outcome
from orchestrator.errors import ConfigError, PluginError
from orchestrator.review.replay import replay
from orchestrator.review.replay_text import lines
from orchestrator.store import journal
from tests.review.recordings import broken, loss, messages, raised, run_of, spiked, wire
from tests.simulation import policy


def told(recording, name="pretrain", format=None, **overrides):
    """The one recording's answer."""
    return replay(policy(name, **overrides), [str(recording)], format)["recordings"][0]


def serious(answer):
    """The incidents that are more than a note."""
    return [incident for incident in answer["incidents"] if incident["severity"] != "info"]


def verbs(incident):
    return [action["verb"] for action in incident["actions"]]


def troubled(attempt, step):
    """A raised level in the first attempt, NaN in the second, a crash in the third."""
    if attempt == 1 and step >= 300:
        return {"loss": 6.0}
    if attempt == 2 and step == 450:
        return {"loss": float("nan"), "grad_norm": float("inf")}
    return "crash" if attempt == 3 and step == 500 else None


def test_a_healthy_recording_raises_nothing(tmp_path):
    answer = told(wire(tmp_path / "a.jsonl", messages()))
    assert (answer["steps"], answer["records"], answer["skipped_lines"]) == (4000, 4000, 0)
    assert serious(answer) == []


def test_the_shape_that_is_promised(tmp_path):
    answer = told(wire(tmp_path / "a.jsonl", messages(raised)))
    assert {"recording", "steps", "records", "incidents", "actions", "planned", "skipped_lines", "seconds"} <= set(
        answer
    )
    incident = serious(answer)[0]
    promised = {"class", "severity", "onset_step", "detected_step", "end_step", "rank", "actions"}
    assert promised <= set(incident)
    assert all({"step", "verb", "args"} <= set(action) for action in answer["actions"])
    json.dumps(answer, allow_nan=False)


def test_a_raised_level_would_have_been_rolled_back_to_before_it(tmp_path):
    answer = told(wire(tmp_path / "a.jsonl", [{"type": "run", "shards_total": 900}], messages(raised)))
    (incident,) = serious(answer)
    assert (incident["class"], incident["severity"]) == ("persistent", "high")
    assert 2990 <= incident["onset_step"] <= 3005
    assert verbs(incident) == ["stop", "rollback", "lr", "quarantine", "relaunch"]
    assert next(a for a in incident["actions"] if a["verb"] == "rollback")["args"]["to_step"] == 2000
    judged = incident["counterfactual"]
    assert judged["redo_steps"] == judged["decided_step"] - 2000
    assert "departs here" in judged["note"]


def test_what_was_only_recorded_changes_no_course(tmp_path):
    (incident,) = serious(told(wire(tmp_path / "a.jsonl", messages(spiked))))
    assert (incident["class"], verbs(incident)) == ("isolated", ["record"])
    assert incident["counterfactual"]["saved_steps"] is None


def test_an_answer_counts_as_taken_and_its_incident_does_not_escalate(tmp_path):
    """Three NaN steps in a row, then again within the same trouble: one decision, not the whole ladder."""
    answer = told(wire(tmp_path / "a.jsonl", messages(broken)))
    (incident,) = serious(answer)
    assert incident["class"] == "nonfinite"
    assert verbs(incident).count("rollback") == 1
    assert "hold" not in verbs(incident)


def test_a_hold_does_not_end_the_replay(tmp_path):
    def often(step, value):
        return "nan" if step in (2000, 2600, 3200, 3800) else value

    answer = told(wire(tmp_path / "a.jsonl", messages(often, 5000)))
    assert answer["steps"] == 5000
    assert [incident["onset_step"] for incident in serious(answer)] == [2000, 2600, 3200, 3800]
    assert "hold" in verbs(serious(answer)[2])


def test_checkpoints_are_assumed_where_a_recording_tells_of_none(tmp_path):
    plain = told(wire(tmp_path / "a.jsonl", messages()))
    assert plain["checkpoints"] == "assumed"
    assert plain["planned"] == [
        {"step": step, "verb": "checkpoint", "args": {"assumed": True}} for step in (1000, 2000, 3000, 4000)
    ]
    saves = [{"type": "checkpoint", "step": 1500, "path": "c/1500", "state": "saved"}]
    steps = messages(raised)
    recorded = told(wire(tmp_path / "b.jsonl", steps[:1500], saves, steps[1500:]))
    assert recorded["checkpoints"] == "recorded"
    assert recorded["planned"] == []
    back = next(a for a in recorded["actions"] if a["verb"] == "rollback")
    assert (back["args"]["to_step"], back["args"]["path"]) == (1500, "c/1500")


def test_a_restart_in_the_recording_is_what_happened_instead(tmp_path):
    steps = messages(raised, 3300)
    again = messages(steps=1200, first=2801)
    recording = wire(tmp_path / "a.jsonl", steps, [{"type": "run", "attempt": 2, "start_step": 2800}], again)
    answer = told(recording)
    assert (answer["steps"], answer["records"]) == (4000, 4500)
    (incident,) = serious(answer)
    assert incident["counterfactual"]["recording"] == "was restarted at step 3300 from step 2800"
    assert incident["counterfactual"]["lost_steps"] == 500


def test_silence_in_a_recording_is_a_hang_as_it_would_be_live(tmp_path):
    late = [{**message, "time": 1e9 + 2000 + 7200 + message["step"]} for message in messages(first=2001, steps=200)]
    answer = told(wire(tmp_path / "a.jsonl", messages(steps=2000), late))
    (incident,) = serious(answer)
    assert (incident["class"], incident["detected_step"]) == ("hang", 2000)
    assert answer["steps"] == 2200


def test_several_recordings_in_the_order_of_the_arguments(tmp_path):
    paths = [str(wire(tmp_path / f"{name}.jsonl", messages(steps=50))) for name in "cab"]
    answers = replay(policy(), paths)["recordings"]
    assert [answer["recording"] for answer in answers] == paths


def test_a_csv_says_the_same(tmp_path):
    rows = [f"{step},{raised(step, loss(step)):.6f},1.0" for step in range(1, 4001)]
    (tmp_path / "a.csv").write_text("step,loss,grad_norm\n" + "\n".join(rows) + "\n")
    (incident,) = serious(told(tmp_path / "a.csv"))
    assert verbs(incident)[:2] == ["stop", "rollback"]


# --- a run's own journal -----------------------------------------------------------------------------


def test_a_runs_own_decisions_come_out_the_same(tmp_path):
    loaded, job = run_of(tmp_path / "run", troubled)
    answer = replay(loaded.policy, [str(tmp_path / "run")])["recordings"][0]
    decisions = [fact for fact in job.facts if isinstance(fact, Decision)]
    assert answer["agrees"]
    assert answer["difference"] is None
    assert answer["decisions"] == len(decisions) >= 4
    assert [a["verb"] for a in answer["actions"]] == [a.verb for d in decisions if d.incident for a in d.actions]


def test_the_first_decision_that_comes_out_otherwise_is_told(tmp_path):
    loaded, job = run_of(tmp_path / "run", troubled)
    at = next(i for i, fact in enumerate(job.facts) if isinstance(fact, Decision) and fact.incident)
    decision = job.facts[at]
    forged = decision._replace(actions=tuple(a for a in decision.actions if a.verb != "lr"))
    changed = [*job.facts[:at], forged, *job.facts[at + 1 :]]
    header = journal.header_of(tmp_path / "run" / "journal.jsonl")
    (tmp_path / "run" / "journal.jsonl").unlink()
    with journal.Journal(tmp_path / "run" / "journal.jsonl", header) as log:
        for fact in changed:
            log.append(journal.Record(fact))
    answer = replay(loaded.policy, [str(tmp_path / "run")])["recordings"][0]
    assert not answer["agrees"]
    assert "lr" in [action["verb"] for action in answer["difference"]["recomputed"]["actions"]]
    assert "lr" not in [action["verb"] for action in answer["difference"]["recorded"]["actions"]]


def test_another_policy_on_a_journal_takes_the_old_stops_for_no_crash(tmp_path):
    run_of(tmp_path / "run", troubled)
    answer = told(tmp_path / "run", checkpoints__healthy_after="20 steps")
    assert "agrees" not in answer
    assert sorted(i["class"] for i in serious(answer)).count("crash") == 1


def test_a_journal_replayed_under_its_policy_gives_each_outcome_no_second_decision(tmp_path):
    loaded, job = run_of(tmp_path / "run", lambda attempt, step: None)
    assert any(isinstance(fact, Outcome) for fact in job.facts)
    answer = replay(loaded.policy, [str(tmp_path / "run" / "journal.jsonl")])["recordings"][0]
    assert answer["agrees"]
    assert serious(answer) == []


# --- what cannot be read -----------------------------------------------------------------------------


def test_what_is_no_recording_is_said(tmp_path):
    (tmp_path / "notes.txt").write_text("dear diary\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="add --format NAME"):
        told(tmp_path / "notes.txt")
    with pytest.raises(ConfigError, match="neither a run directory"):
        told(tmp_path / "empty")
    with pytest.raises(ConfigError, match="no such recording"):
        told(tmp_path / "gone.jsonl")
    with pytest.raises(PluginError, match="did you mean 'megatron'"):
        told(tmp_path / "notes.txt", format="megatorn")


def test_broken_lines_are_counted(tmp_path):
    path = wire(tmp_path / "a.jsonl", messages(steps=100))
    path.write_text(path.read_text() + '{"type":"step","st\n' + "garbage\n")
    assert told(path)["skipped_lines"] == 2


def test_a_damaged_journal_is_a_usage_error_not_a_crash(tmp_path):
    loaded, _ = run_of(tmp_path / "run", lambda attempt, step: None)
    path = tmp_path / "run" / "journal.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"#" + data[len(data) // 2 + 1 :])
    with pytest.raises(ConfigError, match="damaged"):
        replay(loaded.policy, [str(tmp_path / "run")])


def test_people_read_when_what_and_why(tmp_path):
    text = lines(replay(policy(), [str(wire(tmp_path / "a.jsonl", messages(raised)))]))
    assert "incident 1: persistent (high), onset 300" in text
    assert "rollback to_step=2000" in text
    assert "the policy's answer trains" in text


def test_a_log_of_a_named_format(tmp_path):
    lines_ = [
        f" iteration {step:8d}/    4000 | learning rate: 3.0E-04 | lm loss: {raised(step, loss(step)):.6E} |"
        " loss scale: 1.0 | grad norm: 1.000 |"
        for step in range(1, 3401)
    ]
    (tmp_path / "train.log").write_text("\n".join(lines_) + "\n")
    answer = told(tmp_path / "train.log", format="megatron")
    assert (answer["format"], answer["steps"], answer["skipped_lines"]) == ("megatron", 3400, 0)
    assert verbs(serious(answer)[0])[:2] == ["stop", "rollback"]


def test_a_tensorboard_folder(tmp_path):
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    events = writer.EventFileWriter(str(tmp_path / "tb"))
    for step in range(1, 3401):
        value = Summary.Value(tag="train/loss", simple_value=raised(step, loss(step)))
        events.add_event(Event(wall_time=1e9 + step, step=step, summary=Summary(value=[value])))
    events.close()
    answer = told(tmp_path / "tb")
    assert (answer["format"], answer["steps"]) == ("tensorboard", 3400)
    assert verbs(serious(answer)[0])[:2] == ["stop", "rollback"]


@pytest.mark.parametrize("every", [10, 50])
def test_a_coarse_log_has_its_checkpoints_where_the_cadence_puts_them(tmp_path, every):
    coarse = [message for message in messages(steps=5000) if message["step"] % every == 0]
    answer = told(wire(tmp_path / "a.jsonl", coarse), checkpoints__every="75 steps")
    assert [action["step"] for action in answer["planned"]][:4] == [75, 150, 225, 300]
    assert answer["steps"] == 5000 // every


def test_a_cadence_in_time_follows_the_recorded_clock(tmp_path):
    answer = told(wire(tmp_path / "a.jsonl", messages(steps=1000)), checkpoints__every="5m")
    assert [action["step"] for action in answer["planned"]] == [301, 601, 901]


def test_steps_that_leap_do_not_fill_the_memory(tmp_path):
    far = [{"type": "step", "step": step, "loss": 2.0} for step in (1, 2, 10**12)]
    answer = told(wire(tmp_path / "a.jsonl", far))
    assert answer["steps"] == 3
    assert len(answer["planned"]) <= 300
