"""Looking at checkpoints where they stand, and launches that cannot load one (K15)."""

import json
from pathlib import Path

import fsspec

from orchestrator.checkpoints import huggingface
from orchestrator.core.facts import Checkpoint
from orchestrator.runtime import examine


def test_a_launch_of_another_number_of_ranks_is_refused_where_the_layout_cannot_reshard():
    fixed = Checkpoint(1, 500, "ck", "saved", ranks=4)
    assert examine.unfit(fixed, 6) == "step 500 was written by 4 ranks and cannot be loaded by 6"
    assert examine.unfit(fixed, 4) == ""
    assert examine.unfit(fixed, None) == "", "how many there will be is not known"
    assert examine.unfit(Checkpoint(1, 500, "ck", "saved"), 6) == "", "it reshards"


def test_a_look_says_what_is_gone_what_is_broken_and_what_a_resume_would_lack(tmp_path: Path):
    path = tmp_path / "checkpoint-7"
    seen = Checkpoint(1, 7, str(path), "saved", time=3.0, seconds=2.0)
    assert examine.examined(huggingface, seen) == seen._replace(state="missing", why="it is gone")
    path.mkdir()
    (path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": 7}))
    whole = examine.examined(huggingface, seen)
    assert (whole.state, whole.seconds) == ("saved", 2.0)
    assert "optimizer" in whole.lacks
    (path / "model.safetensors").write_bytes(b"short")
    assert examine.examined(huggingface, seen).state == "corrupt"


def test_paths_are_said_as_everybody_can_use_them():
    assert examine.whole("out/ck", "/home/job") == "/home/job/out/ck"
    assert examine.whole("s3://b/ck", "/home/job") == "s3://b/ck"
    assert examine.whole("", "/home/job") == ""
    assert examine.full_path(fsspec.filesystem("memory"), "/b/ck") == "memory:///b/ck"
    assert examine.full_path(fsspec.filesystem("file"), "/b/ck") == "/b/ck"
