"""The whole loop on real processes: trouble seen, decided, done, and the run at its end."""

import json

import pytest

from orchestrator.core.facts import Exited, Launched, Supervised
from orchestrator.errors import RunDirError
from orchestrator.runtime import ending
from tests.runtime.scripted import POLICY, Run


def verbs(run: Run) -> list[tuple[str, ...]]:
    return [tuple(action[0] for action in decision[2:]) for decision in run.decisions()]


def test_a_run_without_trouble_reaches_its_end_and_every_line_is_journaled(run):
    state = run.lay_out().supervise()
    assert (state.status, state.step, state.attempt) == ("completed", 300, 1)
    assert run.steps(1) == list(range(1, 301))
    assert verbs(run) == [("relaunch",)]
    assert ending.exit_code(state) == 0


def test_a_bad_shard_is_rolled_back_from_cut_out_and_the_run_completes(run):
    state = run.lay_out({"at": 120, "do": "level"}).supervise()
    assert (state.status, state.step, state.attempt) == ("completed", 300, 2)
    assert verbs(run) == [("relaunch",), ("stop", "rollback", "lr", "quarantine", "relaunch")]
    _, back, cut, left_out, again = run.decisions()[1][2:]
    assert back[1:3] == again[1:3] == (100, str(run.dir.path / "checkpoints/checkpoint-100"))
    assert cut[3][0].factor == 0.5
    assert "web/012" in left_out[4]
    assert run.steps(2) == list(range(101, 301))
    assert [(i.cls, i.onset, i.stage) for i in state.incidents] == [("persistent", 120, "closed")]
    cut_seen = next(o for o in state.actions if o.action.verb == "lr")
    assert cut_seen.status == "confirmed", cut_seen.detail


def test_two_lives_of_a_job_are_never_at_once(run):
    state = run.lay_out({"at": 120, "do": "level"}).supervise()
    facts = [f for f in run.facts() if isinstance(f, Launched | Exited)]
    assert [type(f).__name__ for f in facts] == ["Launched", "Exited", "Launched", "Exited"]
    assert state.attempts[0].exited.time <= state.attempts[1].launched


def test_a_job_that_leaves_early_with_zero_has_not_completed(run):
    state = run.lay_out({"at": 100, "do": "exit_zero", "attempts": 1}).supervise()
    assert (state.status, state.attempt) == ("completed", 2)
    assert [(i.cls, i.reason) for i in state.incidents] == [("crash", "exit code 0")]


def test_a_launcher_that_swallows_the_exit_code_does_not_hide_the_crash(run):
    run.lay_out({"at": 90, "do": "crash", "attempts": 1})
    setup = json.loads((run.folder / "setup.json").read_text())
    trainer, script = setup["command"][2:]
    setup["command"] = ["sh", "-c", f"python3 -S {trainer} {script} 2>&1 | cat"]
    (run.folder / "setup.json").write_text(json.dumps(setup))
    state = run.supervise()
    assert state.status == "completed"
    assert state.incidents[0].reason == "ValueError: no good at step 89 (exit code 0)"


def test_the_same_failure_at_the_same_step_is_not_tried_a_third_time(run):
    state = run.lay_out({"at": 50, "do": "crash"}).supervise()
    assert (state.status, state.attempt) == ("held", 2)
    assert "again at step 49" in state.why
    assert ending.exit_code(state) == 3


def test_a_policy_that_changed_is_journaled_and_obeyed_from_then_on(run):
    child = run.lay_out({"at": 200, "do": "wait", "for": str(run.folder / "go")}).start()
    run.wait_for(lambda: len(run.steps(1)) >= 199)
    child.kill()
    child.communicate()
    (run.folder / "policy.yaml").write_text(POLICY + "detectors: {level: {kind: level_shift, above: 5%, sigmas: 6}}\n")
    (run.folder / "go").touch()
    state = run.supervise()
    assert (state.status, state.attempt) == ("completed", 1)
    first, second = [f for f in run.facts() if isinstance(f, Supervised)]
    assert (first.text, first.policy != second.policy) == ("", True)
    assert "above: 5%" in second.text
    assert run.steps(1) == list(range(1, 301))


def test_damage_in_the_journal_is_said_and_nothing_is_touched(run):
    run.lay_out().supervise()
    text = run.dir.journal.read_bytes()
    run.dir.journal.write_bytes(text.replace(b'"step"', b'"stpe"', 1))
    before = run.dir.journal.read_bytes()
    with pytest.raises(RunDirError, match="the journal is damaged here"):
        run.supervise()
    assert run.dir.journal.read_bytes() == before
    child = run.start()
    said, _ = child.communicate(timeout=30)
    assert child.returncode == 4
    assert said.startswith("orchestrate: ")


def test_a_command_that_does_not_exist_is_said_at_once(run):
    state = run.lay_out(command=["/no/such/program"]).supervise()
    assert (state.status, state.attempt) == ("failed", 1)
    assert "the command cannot be started: /no/such/program: No such file or directory" in state.why
    assert ending.exit_code(state) == 1


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("raise MemoryError('std::bad_alloc')", "std::bad_alloc"),
        ("raise OSError(28, 'No space left on device')", "No space left on device"),
    ],
)
def test_what_another_try_cannot_mend_is_said_and_not_tried_for_long(run, code, why):
    state = run.lay_out(command=["python", "-c", code]).supervise()
    assert state.status in ("failed", "held")
    assert state.attempt <= 2
    assert why in state.why or why in state.incidents[-1].reason
