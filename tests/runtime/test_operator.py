"""An operator's word from another process: a fact with its author, answered by a decision."""

import os
import pwd

import pytest

from orchestrator.core.facts import Decision, Order, Step
from orchestrator.errors import RunDirError
from orchestrator.launchers import local
from orchestrator.runtime import orders
from orchestrator.store import journal
from orchestrator.store.recorded import fold
from tests.runtime.scripted import POLICY, Run

ME = pwd.getpwuid(os.getuid()).pw_name


def at(step, do):
    """A listener that does something once, at a step of the first attempt."""
    done = []

    def listen(state, fact):
        if isinstance(fact, Step) and fact.step >= step and not done:
            done.append(True)
            do()

    return listen


def answers(run: Run) -> list[Decision]:
    return [f for f in run.facts() if isinstance(f, Decision) and f.order]


def test_stop_ends_the_job_at_a_step_boundary(run):
    state = run.lay_out().supervise(at(60, lambda: orders.give(run.dir, "stop", "lunch")))
    assert (state.status, state.why) == ("stopped", f"stopped by {ME}: lunch")
    assert run.processes() == []
    assert [(f.verb, f.author) for f in run.facts() if isinstance(f, Order)] == [("stop", ME)]


def test_release_after_a_stop_goes_on_from_the_newest_checkpoint(run):
    run.lay_out().supervise(at(90, lambda: orders.give(run.dir, "stop")))
    orders.give(run.dir, "release", "back again")
    state = run.supervise()
    assert (state.status, state.attempt, state.step) == ("completed", 2, 300)
    assert state.attempts[1].start_step >= 80


def test_release_after_a_hold_gives_the_failure_its_budget_again(run):
    held = run.lay_out({"at": 50, "do": "crash", "attempts": 3}).supervise()
    assert (held.status, held.attempt) == ("held", 2)
    orders.give(run.dir, "release", "mended")
    state = run.supervise()
    assert (state.status, state.attempt, state.step) == ("completed", 4, 300)


def test_a_released_host_is_used_again_from_the_next_launch_on(run, monkeypatch):
    command, left_out = local.command, []

    def listening(words, options):
        left_out.append(options["exclude"])
        return command(words, options)

    def listen(state, fact):
        if isinstance(fact, Step) and (fact.attempt, fact.step) == (2, 80):
            orders.give(run.dir, "release", "new memory", host="b")

    monkeypatch.setattr(local, "command", listening)
    troubles = {"at": 60, "do": "lose_host", "attempts": 1}, {"at": 150, "do": "crash", "attempts": 2}
    policy = POLICY + "failures: {host: {respond: [exclude, relaunch]}}\n"
    state = run.lay_out(*troubles, policy=policy, hosts=["a", "b"], rate=100).supervise(listen)
    assert (state.status, state.attempt) == ("completed", 3)
    assert left_out == [(), ("b",), ()]
    told = next(f for f in run.facts() if isinstance(f, Order))
    assert (told.verb, told.author, told.why, told.host) == ("release", ME, "new memory", "b")
    assert fold(journal.header_of(run.dir.journal), journal.stream(run.dir.journal)).state.levels == state.levels


def test_shards_are_left_out_and_read_again_from_the_next_launch_on(run):
    def listen(state, fact):
        if isinstance(fact, Step) and (fact.attempt, fact.step) == (1, 40):
            orders.give(run.dir, "quarantine", "mostly markup", shards=["web/7", "web/8"])
        if isinstance(fact, Step) and (fact.attempt, fact.step) == (2, 80):
            orders.give(run.dir, "readmit", "it was fine", shards=["web/7"])

    troubles = {"at": 60, "do": "crash", "attempts": 1}, {"at": 150, "do": "crash", "attempts": 2}
    state = run.lay_out(*troubles, rate=100).supervise(listen)
    assert (state.status, state.attempt) == ("completed", 3)
    texts = [run.dir.attempt(number).quarantine.read_text().split() for number in (1, 2, 3)]
    assert texts == [[], ["web/7", "web/8"], ["web/8"]]
    assert fold(journal.header_of(run.dir.journal), journal.stream(run.dir.journal)).state.levels == state.levels


def test_a_rate_cut_reaches_the_running_trainer_and_is_confirmed_by_the_metrics(run):
    state = run.lay_out().supervise(at(100, lambda: orders.give(run.dir, "lr", "too hot", 0.5)))
    (decision,) = answers(run)
    assert decision.why == f"lr ordered by {ME}: too hot"
    assert state.status == "completed"
    assert {f.lr for f in run.facts() if isinstance(f, Step)} == {1e-3, 5e-4}
    assert [(o.action.verb, o.status) for o in state.actions][-1] == ("lr", "confirmed")


def test_a_clip_is_tightened_live(run):
    state = run.lay_out().supervise(at(100, lambda: orders.give(run.dir, "clip", "", 0.5)))
    assert state.levels.clip_scale == 0.5
    assert {f.clip for f in run.facts() if isinstance(f, Step)} == {1.0, 0.5}


def test_a_checkpoint_is_saved_at_once(run):
    run.lay_out(every=1000).supervise(at(100, lambda: orders.give(run.dir, "checkpoint")))
    (folder,) = (run.dir.path / "checkpoints").iterdir()
    assert 100 <= int(folder.name.rpartition("-")[2]) < 300


def test_a_rollback_goes_to_the_named_checkpoint(run):
    state = run.lay_out().supervise(at(150, lambda: orders.give(run.dir, "rollback", "odd samples", 80)))
    assert (state.status, state.attempt) == ("completed", 2)
    assert state.attempts[1].start_step == 80


def test_a_rollback_without_a_step_goes_to_the_newest_healthy_one(run):
    state = run.lay_out().supervise(at(150, lambda: orders.give(run.dir, "rollback")))
    start, healthy_after = state.attempts[1].start_step, 20
    assert start in range(120, state.attempts[0].reached - healthy_after + 1, 20)


def test_what_cannot_be_followed_is_said(run):
    run.lay_out().supervise(at(100, lambda: orders.give(run.dir, "rollback", "", 77)))
    (decision,) = answers(run)
    assert decision.actions == ()
    assert decision.why.endswith("not done: there is no complete checkpoint of step 77")


def test_what_is_no_order_is_passed_over(run):
    def litter():
        run.dir.orders.mkdir()
        (run.dir.orders / "a.json").write_text("{")
        (run.dir.orders / "b.json").write_text('["stop"]')
        orders.give(run.dir, "dance")

    state = run.lay_out().supervise(at(50, litter))
    assert state.status == "completed"
    assert list(run.dir.orders.iterdir()) == []


def test_an_order_to_a_folder_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "orders").write_text("")
    with pytest.raises(RunDirError, match="cannot be left there"):
        orders.give(Run(tmp_path).dir.__class__(tmp_path), "stop")


PROPOSE = POLICY + "mode: propose\npropose: {wait: 30s, then: hold}\n"


def test_a_proposed_rollback_waits_for_a_yes(run):
    def listen(state, fact):
        if isinstance(fact, Decision) and fact.mode == "propose":
            orders.give(run.dir, "approve", "looks right")

    state = run.lay_out({"at": 120, "do": "level"}, policy=PROPOSE).supervise(listen)
    assert (state.status, state.attempt, state.approved) == ("completed", 2, ())
    assert [d[1] for d in run.decisions()] == ["act", "propose", "act"]
    assert [a[0] for a in run.decisions()[2][2:]] == ["stop", "rollback", "lr", "quarantine", "relaunch"]


def test_a_proposal_that_nobody_answers_ends_as_the_policy_says(run):
    policy = PROPOSE.replace("wait: 30s", "wait: 1s")
    state = run.lay_out({"at": 120, "do": "level"}, policy=policy).supervise()
    assert (state.status, state.why) == ("stopped", "nobody approved the proposed actions in time")


def test_what_harms_nobody_needs_no_yes(run):
    state = run.lay_out({"at": 120, "do": "spike"}, policy=PROPOSE).supervise()
    assert state.status == "completed"
    assert [d[1] for d in run.decisions()] == ["act", "act"]
    assert run.decisions()[1][2][0] == "record"


def test_a_silence_forgives_what_was_announced(run):
    run.lay_out({"at": 200, "do": "bump"}, rate=100)
    state = run.supervise(at(80, lambda: orders.give(run.dir, "silence", "new", 200)))
    assert state.incidents == ()
    assert [(s.author, s.why) for s in state.silences] == [(ME, "new")]
    assert 280 <= state.silences[0].until <= 400
