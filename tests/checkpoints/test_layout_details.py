"""What single layouts do that the contract of all does not say."""

import os
from pathlib import Path

import fsspec
import pytest
import torch
from checkpoint_folders import KITS, Kit, lay, marked, torch_bytes

from orchestrator.checkpoints import check, composer, deepspeed, huggingface, lightning, nanotron, torchfile

FS = fsspec.filesystem("file")


def kit(name: str) -> Kit:
    return next(each for each in KITS if each.name == name)


def plain(step: int, **more: object) -> bytes:
    return torch_bytes({"iter_num": step, "model": {"w": torch.arange(64.0) * step}, "optimizer": {}, **more})


class TestTorchfile:
    def test_the_step_of_a_nameless_file_is_read_from_inside(self, tmp_path):
        (tmp_path / "ckpt.pt").write_bytes(plain(1500))
        (tmp_path / "ckpt-1000.pt").write_bytes(plain(1000))
        (tmp_path / "best.pth").write_bytes(torch_bytes({"model": {}}))
        found = torchfile.scan(FS, str(tmp_path))
        assert [(each.step, Path(each.path).name, each.complete) for each in found] == [
            (0, "best.pth", False), (1000, "ckpt-1000.pt", True), (1500, "ckpt.pt", True),
        ]  # fmt: skip
        assert found[0].why.startswith("neither its name nor what is inside tells its step")
        assert check(torchfile, FS, found)[2].missing == ("scheduler", "rng")

    def test_an_archived_copy_outlives_the_next_save_in_place(self, tmp_path):
        path, target = tmp_path / "ckpt.pt", tmp_path / "ckpt-500.pt"
        path.write_bytes(plain(500))
        assert torchfile.archive(FS, str(path), str(target)) == ""
        with open(path, "r+b") as same_file:
            same_file.truncate(0)
            same_file.write(plain(750)[:400])
        assert target.read_bytes() == plain(500)
        assert torchfile.verify(FS, str(target), full=True) == ""
        assert torchfile.archive(FS, str(path), str(tmp_path / "ckpt-750.pt")).startswith("it is cut off")
        assert sorted(os.listdir(tmp_path)) == ["ckpt-500.pt", "ckpt.pt"]

    @pytest.mark.parametrize(
        ("writes", "why"),
        [(lambda path: path.write_bytes(plain(750)), "it changed while it was copied"),
         (lambda path: path.write_bytes(plain(750)[:-9]), "its copy is cut off")],
    )  # fmt: skip
    def test_a_file_that_is_saved_during_the_copy_is_not_archived(self, tmp_path, monkeypatch, writes, why):
        path, real = tmp_path / "ckpt.pt", torchfile._copy
        path.write_bytes(plain(500))

        def saved_meanwhile(fs, source, target):
            writes(path)
            real(fs, source, target)

        monkeypatch.setattr(torchfile, "_copy", saved_meanwhile)
        assert torchfile.archive(FS, str(path), str(tmp_path / "ckpt-500.pt")).startswith(why)
        assert os.listdir(tmp_path) == ["ckpt.pt"]

    def test_a_file_that_was_saved_again_since_its_step_was_read_is_not_archived_under_that_step(self, tmp_path):
        path = tmp_path / "ckpt.pt"
        path.write_bytes(plain(750))
        assert torchfile.archive(FS, str(path), str(tmp_path / "ckpt-500.pt")) == "it is of step 750 by now"
        assert os.listdir(tmp_path) == ["ckpt.pt"]
        assert torchfile.archive(FS, str(path), str(tmp_path / "ckpt-751.pt")) == "", "one loop counts from 0"

    def test_archiving_works_beyond_the_local_disk(self):
        memory = fsspec.filesystem("memory")
        memory.pipe_file("/run/ckpt.pt", plain(5))
        try:
            assert torchfile.archive(memory, "/run/ckpt.pt", "/run/ckpt-5.pt") == ""
            assert memory.cat_file("/run/ckpt-5.pt") == plain(5)
            assert torchfile.archive(memory, "/run/none.pt", "/run/x.pt") == "it is gone"
            found = torchfile.scan(memory, "/run")[0]
            assert torchfile.point_to(memory, "/run", found) == ["/run/ckpt.pt stays: on this storage nothing is moved"]
        finally:
            memory.rm("/run", recursive=True)

    def test_going_back_puts_a_copy_where_the_trainer_looks_and_keeps_what_stood_there(self, tmp_path):
        (tmp_path / "ckpt.pt").write_bytes(plain(750))
        (tmp_path / "ckpt-500.pt").write_bytes(plain(500))
        target = torchfile.scan(FS, str(tmp_path))[0]
        assert torchfile.point_to(FS, str(tmp_path), target) == ["ckpt.pt is now ckpt-500.pt"]
        with open(tmp_path / "ckpt.pt", "r+b") as in_place:
            assert in_place.read() == plain(500)
            in_place.truncate(0)
        assert (tmp_path / "set-aside" / "ckpt.pt").read_bytes() == plain(750)
        assert (tmp_path / "ckpt-500.pt").read_bytes() == plain(500)

    def test_litgpt_is_asked_by_path(self, tmp_path):
        lay(FS, f"{tmp_path}/step-00000010", {"lit_model.pth": plain(10)})
        (found,) = torchfile.scan(FS, str(tmp_path))
        assert torchfile.resume_hint(found) == ("--resume", f"{tmp_path}/step-00000010/lit_model.pth")


class TestLightning:
    def test_last_is_found_by_the_step_inside_and_as_a_link_only_once(self, tmp_path):
        whole = kit("lightning").files
        (tmp_path / "epoch=0-step=100.ckpt").write_bytes(whole(100)[""])
        (tmp_path / "epoch=1-step=200-v1.ckpt").write_bytes(whole(200)[""])
        (tmp_path / "last.ckpt").write_bytes(whole(250)[""])
        assert [each.step for each in lightning.scan(FS, str(tmp_path))] == [100, 200, 250]
        (tmp_path / "last.ckpt").unlink()
        (tmp_path / "last.ckpt").symlink_to("epoch=1-step=200-v1.ckpt")
        assert [each.step for each in lightning.scan(FS, str(tmp_path))] == [100, 200]

    def test_weights_alone_are_told_by_the_keys_inside(self, tmp_path):
        (tmp_path / "step=7.ckpt").write_bytes(torch_bytes({"global_step": 7, "state_dict": {}, "loops": {}}))
        (found,) = check(lightning, FS, lightning.scan(FS, str(tmp_path)))
        assert (found.complete, found.missing) == (True, ("optimizer", "scheduler"))

    def test_going_back_links_last_and_hides_what_slurm_would_take(self, tmp_path):
        whole = kit("lightning").files
        for name, step in (
            ("step=100.ckpt", 100),
            ("last.ckpt", 200),
            ("hpc_ckpt_3.ckpt", 200),
            ("step=200.ckpt", 200),
        ):
            (tmp_path / name).write_bytes(whole(step)[""])
        target = lightning.scan(FS, str(tmp_path))[0]
        assert lightning.point_to(FS, str(tmp_path), target) == [
            "hpc_ckpt_3.ckpt moved to set-aside/hpc_ckpt_3.ckpt",
            "last.ckpt is now step=100.ckpt",
        ]
        assert (tmp_path / "last.ckpt").resolve() == tmp_path / "step=100.ckpt"
        assert (tmp_path / "set-aside" / "last.ckpt").read_bytes() == whole(200)[""]
        assert [each.step for each in lightning.scan(FS, str(tmp_path))] == [100, 200]


class TestComposer:
    def test_the_files_of_all_ranks_are_one_checkpoint(self, tmp_path):
        for rank in range(3):
            (tmp_path / f"ep0-ba10-rank{rank}.pt").write_bytes(plain(10))
            (tmp_path / f"ep1-ba20-rank{rank}.pt").write_bytes(plain(20)[: 900 if rank == 2 else None])
        (tmp_path / "ep0-ba10-rank1.pt").rename(tmp_path / "ep2-ba30-rank1.pt")
        found = composer.scan(FS, str(tmp_path))
        assert [(each.step, Path(each.path).name, each.why) for each in found] == [
            (10, "ep0-ba10-rank{rank}.pt", "ep0-ba10-rank1.pt is missing"),
            (20, "ep1-ba20-rank{rank}.pt", ""),
            (30, "ep2-ba30-rank{rank}.pt", "ep2-ba30-rank0.pt is missing"),
        ]
        assert (found[1].world_size, found[1].reshards) == (3, False)
        assert composer.verify(FS, found[1].path).startswith("ep1-ba20-rank2.pt is cut off")

    def test_every_latest_link_is_moved(self, tmp_path):
        for rank in range(2):
            for batch in (10, 20):
                (tmp_path / f"ep0-ba{batch}-rank{rank}.pt").write_bytes(plain(batch))
            (tmp_path / f"latest-rank{rank}.pt").symlink_to(f"ep0-ba20-rank{rank}.pt")
        (tmp_path / "latest-rank0.pt.symlink").write_text("x")
        composer.point_to(FS, str(tmp_path), composer.scan(FS, str(tmp_path))[0])
        assert [os.readlink(tmp_path / f"latest-rank{rank}.pt") for rank in range(2)] == [
            "ep0-ba10-rank0.pt", "ep0-ba10-rank1.pt",
        ]  # fmt: skip
        assert (tmp_path / "latest-rank0.pt.symlink").read_text() == f"{tmp_path}/ep0-ba10-rank0.pt"


class TestDeepspeed:
    def test_after_a_rollback_what_lies_above_latest_may_be_half_overwritten(self, tmp_path):
        for step in (100, 200):
            lay(FS, f"{tmp_path}/global_step{step}", kit("deepspeed").files(step))
        (tmp_path / "latest").write_text("global_step100\n")
        found = deepspeed.scan(FS, str(tmp_path))
        assert [each.complete for each in found] == [True, False]
        assert found[1].why.startswith("latest still names global_step100")
        (tmp_path / "latest").write_text("global_step200")
        assert [each.complete for each in deepspeed.scan(FS, str(tmp_path))] == [True, True]

    def test_the_count_is_the_one_that_the_model_state_names(self, tmp_path):
        files = kit("deepspeed").files(100)
        del files["bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"]
        lay(FS, f"{tmp_path}/global_step100", files)
        assert deepspeed.verify(FS, f"{tmp_path}/global_step100") == (
            "it holds optimizer states of 2 ranks, and mp_rank_00_model_states.pt says 3"
        )

    def test_a_universal_one_has_a_pointer_of_its_own(self, tmp_path):
        files = {"mp_rank_00_model_states.pt": plain(1), "zero/w/fp32.pt": plain(1)}
        lay(FS, f"{tmp_path}/global_step5_universal", files)
        (found,) = deepspeed.scan(FS, str(tmp_path))
        assert deepspeed.point_to(FS, str(tmp_path), found) == ["latest_universal names global_step5_universal"]


class TestHuggingface:
    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"checkpoint-is-incomplete.txt": b""}, "checkpoint-is-incomplete.txt stands in it: its save did not end"),
            ({"trainer_state.json": b'{"global_step": 2'}, "trainer_state.json is not whole"),
            ({"trainer_state.json": b'{"global_step": 100}'}, "trainer_state.json is of step 100"),
            ({"rng_state_2.pth": b"PK"}, "rng_state_0.pth is missing"),
        ],
    )
    def test_its_own_files_tell_a_save_that_did_not_end(self, tmp_path, change, why):
        lay(FS, f"{tmp_path}/checkpoint-200", {**kit("huggingface").files(200), **change})
        assert [each.why for each in huggingface.scan(FS, str(tmp_path))] == [why]

    def test_an_index_that_names_more_than_there_is(self, tmp_path):
        index = b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "other.safetensors"}}'
        files = {**kit("huggingface in shards").files(5), "model.safetensors.index.json": index}
        lay(FS, f"{tmp_path}/checkpoint-5", files)
        assert huggingface.verify(FS, f"{tmp_path}/checkpoint-5") == (
            "other.safetensors is missing, which model.safetensors.index.json names"
        )


def test_nanotron_counts_what_its_file_names_promise(tmp_path):
    files = kit("nanotron").files(5)
    del files["optimizer/optimizer_pp-0-of-1_dp-1-of-3_tp-0-of-1_exp-0-of-1.pt"]
    lay(FS, f"{tmp_path}/5", files)
    (found,) = nanotron.scan(FS, str(tmp_path))
    assert found.why == "file 1 of 3 of optimizer/optimizer_pp-0-of-1_dp-*-of-3_tp-0-of-1_exp-0-of-1.pt is missing"


def test_metadata_that_points_outside_its_checkpoint_is_refused(tmp_path):
    files = marked({".metadata": b"x"}, 1)
    lay(FS, f"{tmp_path}/step-1", {**files, "orchestrate.json": b'{"step": 1, "files": {"../other": 1}}'})
    (found,) = kit("dcp").layout.scan(FS, str(tmp_path))
    assert found.why == "it names '../other', outside the checkpoint"
