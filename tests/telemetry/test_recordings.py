"""Recordings that are no text: TensorBoard folders and the Trainer's state file."""

import json
import math
import sys

import pytest

from orchestrator.core.facts import Announced, Eval, Step
from orchestrator.errors import PluginError
from orchestrator.telemetry import hf_state, tensorboard


@pytest.fixture
def events(tmp_path):
    """Writes event files; each call one file, points in order."""
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    def write(points, folder="", as_tensor=False, start=1000.0):
        writer = EventFileWriter(str(tmp_path / folder), filename_suffix=f".{int(start)}")
        for at, (tag, step, value) in enumerate(points):
            item = Summary.Value(tag=tag)
            if as_tensor:
                item.tensor.CopyFrom(make_tensor_proto(value, dtype="float32"))
                item.metadata.plugin_data.plugin_name = "scalars"
            else:
                item.simple_value = value
            writer.add_event(Event(wall_time=start + at, step=step, summary=Summary(value=[item])))
        writer.close()
        return tmp_path

    return write


@pytest.mark.parametrize("as_tensor", [False, True])
def test_scalars_are_merged_by_step(events, as_tensor):
    folder = events(
        [("lr", 1, 0.5), ("loss", 1, 2.5), ("grad_norm", 1, 0.75), ("lr", 2, 0.5), ("loss", 2, math.nan),
         ("grad_norm", 2, math.inf), ("validation/loss", 2, 2.75), ("epoch", 2, 1.0)],
        as_tensor=as_tensor,
    )  # fmt: skip
    assert list(tensorboard.read(folder)) == [
        Step(1, 1, 1002.0, loss=2.5, grad_norm=0.75, lr=0.5),
        Step(1, 2, 1006.0, lr=0.5, nonfinite=("loss", "grad_norm")),
        Eval(1, 2, "validation/loss", 2.75, 1006.0),
    ]


def test_a_second_file_that_falls_back_is_the_next_attempt(events):
    events([(tag, step, value) for step in range(1, 8) for tag, value in (("lr", 0.5), ("train/loss", 2.5))])
    folder = events(
        [(tag, step, value) for step in range(5, 10) for tag, value in (("lr", 0.25), ("train/loss", 2.25))],
        start=2000.0,
    )
    facts = list(tensorboard.read(folder, attempt=3))
    assert [(fact.attempt, fact.step, fact.lr) for fact in facts if isinstance(fact, Step)] == [
        *((3, step, 0.5) for step in range(1, 8)),
        *((4, step, 0.25) for step in range(5, 10)),
    ]
    assert [fact for fact in facts if isinstance(fact, Announced)] == [Announced(4, 4)]


def test_a_file_that_goes_on_is_the_same_attempt_and_subfolders_name_evaluations(events):
    events([("loss", 1, 2.5), ("loss", 2, 2.25)])
    events([("loss", 3, 2.0)], start=2000.0)
    folder = events([("loss", 2, 2.75)], folder="validation", start=1500.0)
    facts = list(tensorboard.read(folder))
    assert [(fact.attempt, fact.step, fact.loss) for fact in facts if isinstance(fact, Step)] == [
        (1, 1, 2.5), (1, 2, 2.25), (1, 3, 2.0),
    ]  # fmt: skip
    assert [(fact.step, fact.name, fact.value) for fact in facts if isinstance(fact, Eval)] == [
        (2, "validation/loss", 2.75)
    ]


def test_tags_counted_in_samples_are_left_out(events):
    folder = events([("lm loss", 1, 2.5), ("lm loss vs samples", 256, 2.5), ("lm loss", 2, 2.25)])
    assert [(fact.step, fact.loss) for fact in tensorboard.read(folder)] == [(1, 2.5), (2, 2.25)]


def test_a_file_cut_anywhere_gives_its_first_points(events, tmp_path):
    folder = events([("loss", step, 2.5) for step in range(1, 5)])
    (file,) = folder.glob("*tfevents*")
    data = file.read_bytes()
    whole = list(tensorboard.read(file))
    for cut in range(0, len(data), 7):
        file.write_bytes(data[:cut])
        got = list(tensorboard.read(file))
        assert got == whole[: len(got)]


def test_a_folder_without_events_and_a_missing_package_are_told(tmp_path, monkeypatch):
    with pytest.raises(PluginError, match="no TensorBoard event file"):
        list(tensorboard.read(tmp_path))
    (tmp_path / "events.out.tfevents.1").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "tensorboard.util.tensor_util", None)
    with pytest.raises(PluginError, match="pip install tensorboard"):
        list(tensorboard.read(tmp_path))


def test_the_trainer_state_is_read_in_full_precision(tmp_path):
    history = [
        {"epoch": 0.1, "grad_norm": 0.375, "learning_rate": 5e-05, "loss": 1.90625, "step": 10},
        {"epoch": 0.1, "eval_loss": 1.75, "eval_runtime": 3.5, "step": 10},
        {"epoch": 0.2, "grad_norm": math.nan, "learning_rate": 4e-05, "loss": 0.0, "step": 20},
        {"epoch": 0.2, "train_loss": 1.25, "train_runtime": 9.5, "step": 20},
    ]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history, "global_step": 20}))
    facts = [
        Step(1, 10, loss=1.90625, grad_norm=0.375, lr=5e-05),
        Eval(1, 10, "eval_loss", 1.75),
        Step(1, 20, lr=4e-05, nonfinite=("loss", "grad_norm")),
    ]
    assert list(hf_state.read(tmp_path)) == facts
    assert list(hf_state.read(tmp_path / "trainer_state.json")) == facts


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"log_history"', "{}"])
def test_another_file_is_told(tmp_path, text):
    (tmp_path / "trainer_state.json").write_text(text)
    with pytest.raises(PluginError, match="log_history"):
        list(hf_state.read(tmp_path))
