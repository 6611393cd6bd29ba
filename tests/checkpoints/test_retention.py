"""What may be deleted, what never; which checkpoint of several a run may go back to."""

import fsspec
import pytest
from checkpoint_folders import KITS, lay
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.checkpoints import Found, check, huggingface, megatron, refusal
from orchestrator.checkpoints._retention import own, removable, remove

FS = fsspec.filesystem("file")
HF = next(kit for kit in KITS if kit.name == "huggingface")


def row(*steps: int, incomplete: tuple[int, ...] = ()) -> list[Found]:
    return [Found(step, f"ck/{step}", step not in incomplete) for step in steps]


def gone(found, keep_last=1, keep_healthy=1, every=None, healthy=(), needed=()) -> list[int]:
    paths = [f"ck/{step}" for step in healthy], [f"ck/{step}" for step in needed]
    return [each.step for each in removable(found, keep_last, keep_healthy, every, *paths)]


def test_the_lowest_number_goes_not_the_first_in_the_alphabet():
    assert gone(row(*range(9000, 10001, 100)), keep_last=10) == [9000]


def test_an_incomplete_one_is_neither_counted_nor_removed():
    assert gone(row(100, 200, 300, incomplete=(300,)), keep_last=1) == [100]
    assert gone(row(100, 200, incomplete=(200,)), keep_last=0) == []


def test_the_last_healthy_one_stays_however_far_back():
    assert gone(row(1, 2, 3, 4, 5), healthy=(1, 2)) == [1, 3, 4]
    assert gone(row(1, 2, 3, 4, 5), keep_healthy=2, healthy=(1, 2)) == [3, 4]
    assert gone(row(1, 2, 3, 4, 5), keep_healthy=0, healthy=(1, 2)) == [1, 3, 4]


def test_what_an_open_incident_needs_stays():
    assert gone(row(1, 2, 3, 4, 5), needed=(2, 3)) == [1, 4]


def test_milestones_are_the_first_of_each_stretch_also_off_cadence():
    assert gone(row(500, 999, 1003, 1500, 2001, 2400, 3100, 3200), every=1000) == [500, 999, 1500, 2400]


CHOICES = st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=25, unique_by=lambda each: each[0])
STEPS = st.sets(st.integers(0, 60))


@given(CHOICES, st.integers(0, 4), st.integers(0, 4), st.one_of(st.none(), st.integers(1, 20)), STEPS, STEPS)
def test_no_policy_loses_what_a_run_cannot_do_without(choices, last, sound, every, healthy, needed):
    found = [Found(step, f"ck/{step}", complete) for step, complete in choices]
    lost = gone(found, last, sound, every, healthy, needed)
    left = [each for each in found if each.step not in lost]
    complete = [each.step for each in found if each.complete]
    assert set(lost) <= set(complete) - needed
    if complete:
        assert max(complete) in [each.step for each in left]
    if healthy & set(complete):
        assert max(healthy & set(complete)) in [each.step for each in left]
    assert gone(left, last, sound, every, healthy, needed) == [], "once more removes nothing more"


def test_an_older_run_s_higher_numbers_are_not_ours():
    found = [
        Found(100, "ck/100", True, run="new"),
        Found(200, "ck/200", True),
        Found(500, "ck/500", True),
        Found(600, "ck/600", True, run="old"),
    ]
    mine = own(found, "new", saved={"ck/200", "ck/600"})
    assert [each.step for each in mine] == [100, 200]
    assert [each.step for each in removable(mine, 2, 1, None, (), ())] == []


def test_a_removed_link_leaves_what_it_leads_to(tmp_path):
    lay(FS, f"{tmp_path}/archive/step-1", {"a": b"1"})
    (tmp_path / "step-1").symlink_to(tmp_path / "archive" / "step-1")
    remove(FS, Found(1, str(tmp_path / "step-1"), True))
    assert not (tmp_path / "step-1").is_symlink()
    assert (tmp_path / "archive" / "step-1" / "a").exists()


def test_removing_twice_is_removing_once(tmp_path):
    lay(FS, f"{tmp_path}/checkpoint-1", HF.files(1))
    (found,) = huggingface.scan(FS, str(tmp_path))
    for _ in range(2):
        remove(FS, found)
        assert list(tmp_path.iterdir()) == []


def test_killed_in_the_save_the_one_before_is_resumed_and_nothing_counts_the_rest(tmp_path):
    files = HF.files(200)
    lay(FS, f"{tmp_path}/checkpoint-100", HF.files(100))
    lay(FS, f"{tmp_path}/checkpoint-200", {name: files[name] for name in ("config.json", "model.safetensors")})
    found = huggingface.scan(FS, str(tmp_path))
    assert [(each.step, each.complete) for each in found] == [(100, True), (200, False)]
    assert found[1].why == "no trainer_state.json, which is written last: it is being written, or its save was cut off"
    assert removable(found, 1, 0, None, (), ()) == []


def test_a_tracker_ahead_of_an_asynchronous_save_does_not_count_it(tmp_path):
    kit = next(kit for kit in KITS if kit.name == "megatron")
    lay(FS, f"{tmp_path}/iter_0001000", kit.files(1000))
    lay(FS, f"{tmp_path}/iter_0002000", {"metadata.json": b"{}", "__0_0.distcp": bytes(1024)})
    lay(FS, f"{tmp_path}/latest_checkpointed_iteration.txt", {"": b"2000"})
    found = megatron.scan(FS, str(tmp_path))
    assert [each.step for each in found if each.complete] == [1000]
    assert found[1].why == "no .metadata: it is being written, or its save was cut off"
    assert removable(found, 1, 1, None, (), ()) == []


def test_truncated_files_are_told_by_a_cheap_look(tmp_path):
    files = HF.files(200)
    lay(FS, f"{tmp_path}/checkpoint-200", {**files, "model.safetensors": files["model.safetensors"][:1000]})
    lay(FS, f"{tmp_path}/checkpoint-300", {**HF.files(300), "optimizer.pt": files["optimizer.pt"][:-100]})
    assert [each.why for each in check(huggingface, FS, huggingface.scan(FS, str(tmp_path)))] == [
        f"model.safetensors holds 1000 of {len(files['model.safetensors'])} bytes",
        "optimizer.pt is cut off: its zip has no whole end record and directory",
    ]


def test_weights_without_an_optimizer_are_complete_and_yet_not_resumed(tmp_path):
    files = HF.files(900)
    del files["optimizer.pt"]
    lay(FS, f"{tmp_path}/checkpoint-800", HF.files(800))
    lay(FS, f"{tmp_path}/checkpoint-900", files)
    found = check(huggingface, FS, huggingface.scan(FS, str(tmp_path)))
    assert [(each.complete, each.missing) for each in found] == [(True, ()), (True, ("optimizer",))]
    assert [each.step for each in found if not refusal(each)] == [800]


@pytest.mark.parametrize(("universal", "why"), [(False, "written by 3 ranks and cannot be loaded by 6"), (True, "")])
def test_another_number_of_ranks_is_refused_unless_the_checkpoint_reshards(tmp_path, universal, why):
    kit = next(kit for kit in KITS if kit.name == "deepspeed")
    files = kit.files(500)
    if universal:
        files = {"mp_rank_00_model_states.pt": files["mp_rank_00_model_states.pt"], "zero/w/exp_avg.pt": b"PK"}
    lay(FS, f"{tmp_path}/global_step500{'_universal' if universal else ''}", files)
    (found,) = kit.layout.scan(FS, str(tmp_path))
    assert refusal(found, 6).endswith(why)
    assert refusal(found, 3) == ""
