"""The surface of a run: what is said, what is obeyed, and what never reaches the trainer."""

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from supervised import ATTACHED, Attempt, Task, join

import orchestrator
from orchestrator import wire
from orchestrator.core.facts import Batch, Step
from orchestrator.core.policy import Checkpoints, Denser, Phase, Policy
from orchestrator.core.units import Cadence
from orchestrator.telemetry import wire as telemetry
from orchestrator.training.run import Run


def due_steps(run: Run, last: int, first: int = 1) -> list[int]:
    found = []
    for step in range(first, last + 1):
        run.step(step, loss=1.0)
        if run.checkpoint_due:
            found.append(step)
            run.saved(step, f"own/{step}")
    return found


def test_outside_a_supervised_run_nothing_is_touched(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(wire.RUN_DIR, raising=False)
    monkeypatch.chdir(tmp_path)
    run = orchestrator.attach(task.optimizer, model=task.model)
    assert run.restore({"model": task.model}) == 0
    seen = []
    for step, batch in run.steps(["a", "b"], start=3, total=6):
        seen.append((step, batch))
        run.step(step, loss=1.0, shards=["s"], tokens=5)
        run.eval(step, val=1.0)
        run.save(step, {"model": task.model})
        run.saved(step, tmp_path)
        assert not run.checkpoint_due
        assert not run.stop_requested
    assert seen == [(4, "a"), (5, "b"), (6, "a")]
    assert run.quarantine == frozenset()
    assert list(tmp_path.iterdir()) == []
    assert not task.optimizer._optimizer_step_pre_hooks


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, orchestrator; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_a_run_is_told_from_its_first_word_to_its_last(attempt: Attempt, task: Task) -> None:
    run = join(task, shards_total=7)
    for step, _ in run.steps([0, 1], start=0, total=3):
        run.step(step, loss=task.learn(), shards=["web-1"], phase="web", tokens=64)
        run.eval(step, val=torch.tensor(2.5), hard=math.nan)
    kinds = [line["type"] for line in attempt.lines()]
    assert kinds == ["run", *["step", "eval", "eval"] * 3, "end"]
    first, step, val, hard, *_, end = attempt.lines()
    assert {k: first[k] for k in ("schema", "attempt", "world_size", "start_step", "total_steps", "shards_total")} == {
        "schema": 1, "attempt": 1, "world_size": 1, "start_step": 0, "total_steps": 3, "shards_total": 7,
    }  # fmt: skip
    assert first["hook"] is True
    assert len(first["hosts"]) == 1
    assert (step["step"], step["shards"], step["phase"], step["tokens"], step["nonfinite"]) == (
        1,
        ["web-1"],
        "web",
        64,
        0,
    )
    assert step["lr"] == 0.1
    assert step["grad_norm"] > 0
    assert (val["name"], val["loss"], hard["name"], hard["loss"]) == ("val", 2.5, "hard", "nan")
    assert (end["step"], end["status"]) == (3, "completed")


def test_a_loop_of_its_own_is_announced_at_its_first_step(attempt: Attempt, task: Task) -> None:
    run = join(task, total=12)
    run.step(8, loss=task.learn())
    first, step = attempt.lines()
    assert (first["start_step"], first["total_steps"], step["step"]) == (7, 12, 8)


def test_a_loss_of_another_library_is_a_number(attempt: Attempt, task: Task) -> None:
    run = join(task)
    run.step(1, loss=numpy.float32(2.5))
    task.learn()
    run.step(2, loss=numpy.float32(0.1))
    assert [message["loss"] for message in attempt.messages("step")] == [2.5, pytest.approx(0.1, rel=1e-7)]


def test_a_loop_of_its_own_is_completed_when_its_process_ends(attempt: Attempt) -> None:
    code = """
import torch, orchestrator
model = torch.nn.Linear(1, 1)
run = orchestrator.attach(torch.optim.SGD(model.parameters(), lr=0.1), total=2)
run.step(1, loss=1.0)
run.step(2, loss=1.0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert attempt.lines()[-1]["status"] == "completed"


def test_a_loop_left_for_no_reason_of_ours_has_no_end(attempt: Attempt, task: Task) -> None:
    run = join(task)
    for step, _ in run.steps([0], total=5):
        run.step(step, loss=1.0)
        break
    assert attempt.lines()[-1]["type"] == "step"


def test_values_of_tensors_and_odd_floats_reach_the_wire(attempt: Attempt, task: Task) -> None:
    run = join(task)
    run.step(1, loss=torch.tensor(-math.inf), update_norm=torch.tensor(0.5), batch={"ids": ["é"], "max_len": 3})
    (message,) = attempt.messages("step")
    assert (message["loss"], message["update_norm"], message["batch"]) == ("-inf", 0.5, {"ids": ["é"], "max_len": 3})


def test_a_cut_acts_from_the_first_step_and_a_changed_one_at_the_next(attempt: Attempt, task: Task) -> None:
    attempt.direct(cuts=[[0.5, 0, None, None]])
    run = join(task)
    run.step(1, loss=task.learn())
    attempt.direct(cuts=[[0.5, 0, None, None], [0.5, 1, 1, 2]])
    for step in range(2, 6):
        run.step(step, loss=task.learn())
    rates = [message["lr"] for message in attempt.messages("step")]
    assert rates == pytest.approx([0.05, 0.05, 0.0375, 0.05, 0.05])


def test_directives_of_another_attempt_or_an_older_epoch_are_ignored(attempt: Attempt, task: Task) -> None:
    run = join(task)
    attempt.direct(epoch=3, cuts=[[0.5, 0, None, None]])
    run.step(1)
    for wrong in ({"epoch": 2, "stop": "now"}, {"epoch": 4, "attempt": 2, "stop": "now"}, {"epoch": 4, "stop": "halt"}):
        attempt.direct(**wrong)
        run.step(2)
        assert not run.stop_requested
    run.step(3, loss=task.learn())
    assert attempt.messages("step")[-1]["lr"] == pytest.approx(0.05)
    attempt.direct(epoch=3, stop="now")
    run.step(4)
    assert run.stop_requested


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"epoch":1}', '{"attempt":1,"epoch":1,"cuts":[["a",1]]}',
             '{"attempt":1,"epoch":1,"cuts":[[NaN,1]]}', '{"attempt":1,"epoch":1,"clip_scale":0}',
             '{"attempt":1,"epoch":1,"cuts":7}', '{"attempt":1,"epoch":"x"}'],
)  # fmt: skip
def test_a_broken_directive_changes_nothing(
    attempt: Attempt, task: Task, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt.direct(cuts=[[0.5, 0, None, None]])
    run = join(task)
    (attempt.folder / wire.DIRECTIVE).write_text(text, encoding="utf-8")
    for step in (1, 2):
        run.step(step, loss=task.learn())
    assert [m["lr"] for m in attempt.messages("step")] == pytest.approx([0.05, 0.05])
    assert capsys.readouterr().err == ""


def test_directives_are_looked_for_twenty_times_a_second(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.training.inbox.POLL_SECONDS", 0.05)
    clock, looks = [100.0], [0]
    monkeypatch.setattr("orchestrator.training.inbox.time.monotonic", lambda: clock[0])
    run = join(task)
    stat = os.stat

    def counting(path: str) -> os.stat_result:
        looks[0] += 1
        return stat(path)

    monkeypatch.setattr("orchestrator.training.inbox.os.stat", counting)
    for step in range(1, 1001):
        clock[0] += 0.001
        run.step(step, loss=1.0)
    assert 18 <= looks[0] <= 21


def test_a_request_to_save_is_answered_once(attempt: Attempt, task: Task) -> None:
    run = join(task)
    attempt.direct(save=1)
    assert due_steps(run, 4) == [1]
    attempt.direct(save=3)
    assert due_steps(run, 8, first=5) == [5]


def test_the_cadence_is_the_policys(attempt: Attempt, task: Task) -> None:
    saving = Checkpoints(every=Cadence(6.0, "steps"), after_incident=Denser(every=2, for_=10))
    attempt.plan(Policy(checkpoints=saving, phases={"a": Phase(until=7), "b": Phase()}))
    run = join(task)
    assert due_steps(run, 12) == [6, 7, 12]
    attempt.direct(dense_until=16)
    assert due_steps(run, 20, first=13) == [14, 16, 18]


def test_a_cadence_in_tokens_holds_without_a_supervisor(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt.plan(Policy(checkpoints=Checkpoints(every=Cadence(100.0, "tokens"))))
    run = join(task)
    found = []
    for step in range(1, 11):
        run.step(step, tokens=30)
        if run.checkpoint_due:
            found.append(step)
            run.saved(step, "own")
    assert found == [4, 8]


def test_the_automatic_cadence_follows_what_a_save_costs_and_how_often_the_run_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from orchestrator.training import cadence
    from orchestrator.training.inbox import Directive

    clock = [0.0]
    monkeypatch.setattr(cadence.time, "monotonic", lambda: clock[0])
    saver = cadence.Cadence(Policy(checkpoints=Checkpoints(every=Cadence(0.0, "auto"))))
    saver.saved(1, cost=2.0)
    saver.saved(1, cost=50.0)
    saver.saved(1, cost=2.0)
    day = math.sqrt(2 * 2.0 * cadence.MTBF)
    clock[0] = day - 5
    assert not saver.due(2, Directive())
    clock[0] = day + 5
    assert saver.due(3, Directive())
    hour = math.sqrt(2 * 2.0 * 3600.0)
    clock[0] = hour - 5
    assert not saver.due(4, Directive(mtbf=3600.0))
    clock[0] = hour + 5
    assert saver.due(4, Directive(mtbf=3600.0))


def test_stop_now_ends_the_loop_at_once(attempt: Attempt, task: Task) -> None:
    run = join(task)
    for step, _ in run.steps([0], total=10):
        if step == 3:
            attempt.direct(stop="now", save=1)
        run.step(step, loss=1.0)
        assert not run.checkpoint_due
        if run.stop_requested:
            break
    assert attempt.lines()[-1] == {"type": "end", "step": 3, "status": "stopped", "time": attempt.lines()[-1]["time"]}


def test_stop_after_a_save_waits_for_the_save(attempt: Attempt, task: Task) -> None:
    run = join(task)
    attempt.direct(stop="save")
    run.step(1, loss=1.0)
    assert (run.checkpoint_due, run.stop_requested) == (True, False)
    run.save(1, {"model": task.model})
    assert (run.checkpoint_due, run.stop_requested) == (False, True)


def test_stop_after_a_save_does_not_wait_for_a_trainer_that_never_saves(attempt: Attempt, task: Task) -> None:
    run = join(task)
    attempt.direct(stop="save")
    run.step(1, loss=1.0)
    run.step(2, loss=1.0)
    assert (run.checkpoint_due, run.stop_requested) == (False, True)


def test_a_completed_run_is_not_called_stopped(attempt: Attempt, task: Task) -> None:
    run = join(task)
    for step, _ in run.steps([0], total=2):
        attempt.direct(stop="now")
        run.step(step, loss=1.0)
        if step == 2 and run.stop_requested:
            break
    assert attempt.lines()[-1]["status"] == "completed"


def test_the_quarantine_is_read_at_attach(attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    path = attempt.run_dir / "left out"
    path.write_text(wire.quarantine_text(["web 1", "code/2"]), encoding="utf-8")
    monkeypatch.setenv(wire.QUARANTINE, str(path))
    assert join(task).quarantine == {"web 1", "code/2"}


def test_a_second_process_of_an_attempt_trains_on_its_own(
    attempt: Attempt, task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    (attempt.folder / "hook.pid").write_text(str(os.getppid()))
    run = join(task)
    run.step(1, loss=1.0)
    assert type(run) is Run
    assert not wire.telemetry_file(attempt.run_dir, 1).exists()
    assert capsys.readouterr().err.count("\n") == 1


def test_the_claim_of_a_dead_process_is_taken_over(attempt: Attempt, task: Task) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(timeout=30)
    (attempt.folder / "hook.pid").write_text(str(ended.pid))
    join(task).step(1, loss=1.0)
    assert (attempt.folder / "hook.pid").read_text() == str(os.getpid())
    assert attempt.messages("step")


def test_a_child_that_inherits_the_environment_trains_on_its_own(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv(ATTACHED, f"{os.getppid()} {attempt.folder}")
    assert type(join(task)) is Run
    monkeypatch.setenv(ATTACHED, f"{os.getppid()} elsewhere/attempts/0001")
    assert type(join(task)) is not Run


def test_a_run_directory_that_vanishes_stops_nothing(attempt: Attempt, task: Task) -> None:
    attempt.direct(cuts=[[0.5, 0, None, None]])
    run = join(task)
    run.step(1, loss=task.learn())
    shutil.rmtree(attempt.run_dir)
    weights = task.weights()
    for step in range(2, 5):
        run.step(step, loss=task.learn())
        run.eval(step, val=1.0)
    assert not torch.equal(task.weights(), weights)
    assert not run.stop_requested


def test_a_run_directory_that_never_was_leaves_the_trainer_alone(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(wire.RUN_DIR, "/proc/nowhere")
    run = join(task)
    run.step(1, loss=1.0)
    assert type(run) is Run
    assert "the hook's attach failed" in capsys.readouterr().err


def test_a_full_disk_loses_lines_and_nothing_else(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = join(task)
    run.step(1, loss=1.0)
    write, full = os.write, [True]

    def sometimes(file: int, data: bytes) -> int:
        if not full[0]:
            return write(file, data)
        if b'"step":3' in data:
            return write(file, data[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("orchestrator.training.stream.os.write", sometimes)
    for step in (2, 3):
        run.step(step, loss=1.0)
    full[0] = False
    attempt.direct(stop="now")
    run.step(4, loss=1.0)
    assert run.stop_requested
    text = wire.telemetry_file(attempt.run_dir, 1).read_text()
    assert json.loads(text.splitlines()[-1])["step"] == 4
    assert capsys.readouterr().err.count("telemetry cannot be written") == 1


def test_fast_steps_are_written_together_and_what_matters_at_once(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("orchestrator.training.solo.HOLD_SECONDS", 0.05)
    monkeypatch.setattr("orchestrator.training.solo.time.monotonic", lambda: clock[0])
    run = join(task)

    def written_after(step: int, later: float, loss: float = 1.0) -> list[int]:
        clock[0] += later
        run.step(step, loss=loss)
        return [message["step"] for message in attempt.messages("step")]

    assert written_after(1, 0.01) == [1]
    assert written_after(2, 0.01) == [1]
    assert written_after(3, 0.05) == [1, 2, 3]
    assert written_after(4, 0.01) == [1, 2, 3]
    assert written_after(5, 0.01, loss=math.nan) == [1, 2, 3, 4, 5]
    assert written_after(6, 0.01) == [1, 2, 3, 4, 5]
    run.eval(6, val=1.0)
    assert [line["type"] for line in attempt.lines()[-2:]] == ["step", "eval"]


def test_a_value_that_cannot_be_read_silences_telemetry_and_not_the_orders(
    attempt: Attempt, task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    run = join(task)
    run.step(1, loss=object())
    attempt.direct(stop="now")
    run.step(2, loss=1.0)
    assert run.stop_requested
    assert capsys.readouterr().err.count("the hook's telemetry failed") == 1


def test_a_plan_that_cannot_be_read_leaves_the_trainers_own_rate(
    attempt: Attempt, task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    wire.write_json(attempt.folder / wire.PLAN, {"schedule": {"speed": 3}})
    run = join(task)
    run.step(1, loss=task.learn())
    assert attempt.messages("step")[0]["lr"] == 0.1
    assert "the hook's start failed" in capsys.readouterr().err


def test_ids_and_lengths_of_a_batch_reach_the_supervisors_facts(attempt: Attempt, task: Task) -> None:
    run = join(task)
    ids = torch.arange(30, 50)
    run.step(1, loss=2.0, batch={"ids": ids, "max_len": torch.tensor(512), "loss_tokens": 16_000})
    run.step(2, loss=2.0, batch={"ids": ["a", "b"], "lengths": [3, 4]})
    parser = telemetry.parser(1)
    text = wire.telemetry_file(attempt.run_dir, 1).read_bytes()
    facts = [fact for line in text.splitlines() for fact in parser.feed(line)]
    assert attempt.messages("step")[0]["batch"]["ids"] == ids.tolist()
    assert [fact.batch for fact in facts if isinstance(fact, Step)] == [
        Batch(tuple(str(i) for i in range(30, 46)), 4, 512.0, 16_000.0), Batch(("a", "b")),
    ]  # fmt: skip
