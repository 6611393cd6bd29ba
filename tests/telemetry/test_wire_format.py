"""The wire: every message of the hook becomes the fact it stands for."""

import json
import math

import pytest

from orchestrator import wire as messages
from orchestrator.core.facts import Announced, Batch, Checkpoint, Ended, Eval, Ranks, Step
from orchestrator.telemetry import wire


@pytest.fixture
def feed():
    parser = wire.parser(1)

    def run(*lines):
        encoded = [line if isinstance(line, bytes) else messages.encode(line).encode() for line in lines]
        return [fact for line in encoded for fact in parser.feed(line)], parser

    return run


def test_a_full_step_keeps_every_field(feed):
    facts, _ = feed(
        {
            "type": "step", "step": 9, "time": 12.5, "loss": 2.5, "grad_norm": 0.75, "lr": 1e-3, "lrs": [1e-3, 1e-4],
            "phase": "code", "tokens": 1024, "tokens_seen": 9216, "loss_scale": 2048.0, "nonfinite": 0, "clip": 1.5,
            "update_norm": 0.25, "param_norm": 60.5, "shards": ["a", "b"], "batch": {"ids": ["x"], "max_len": 9},
        }
    )  # fmt: skip
    assert facts == [
        Step(
            1, 9, 12.5, 2.5, 0.75, 1e-3, phase="code", shards=("a", "b"), clip=1.5, loss_scale=2048.0,
            tokens=1024.0, tokens_seen=9216.0, update_norm=0.25, param_norm=60.5, batch=Batch(("x",), max_len=9.0),
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"ids": ["a", 7], "max_len": 40, "loss_tokens": 0}, Batch(("a", "7"), 0, 40.0, 0.0)),
        ({"ids": [*range(20)]}, Batch(tuple(map(str, range(16))), 4)),
        ({"ids": ["x" * 90]}, Batch(("x" * 80,))),
        ({"ids": 12, "max_len": "nan", "loss_tokens": "many"}, Batch(("12",))),
        ({"ids": []}, None),
        ({"colour": "red"}, None),
        (256, None),
        ([1, 2], None),
        (None, None),
    ],
)
@pytest.mark.parametrize("loss", [2.5, "nan"])
def test_of_a_batch_the_first_ids_and_the_lengths_are_kept_whatever_its_shape(feed, told, kept, loss):
    (step,), parser = feed({"type": "step", "step": 3, "loss": loss, "batch": told})
    assert (step.batch, parser.skipped) == (kept, 0)


def test_a_step_that_is_not_finite_brings_its_first_parameters_and_module(feed):
    where = {"nonfinite": 5, "nonfinite_names": ["head.weight", "head.bias"], "nonfinite_module": "blocks.3"}
    (step,), _ = feed({"type": "step", "step": 3, "loss": "nan", **where})
    assert (step.parameters, step.module) == (("head.weight", "head.bias"), "blocks.3")


@pytest.mark.parametrize(
    ("fields", "wrong", "loss"),
    [
        ({"loss": "nan", "grad_norm": 0.5}, ("loss",), None),
        ({"loss": math.nan, "grad_norm": -math.inf}, ("loss", "grad_norm"), None),
        ({"loss": 2.5, "nonfinite": 4}, ("grad_norm",), 2.5),
        ({"loss": 2.5, "grad_norm": "inf", "nonfinite": 4}, ("grad_norm",), 2.5),
        ({"loss": 0.0, "grad_norm": "nan"}, ("loss", "grad_norm"), None),
        ({"loss": 0.0, "grad_norm": 0.5}, (), 0.0),
        ({"loss": "two", "grad_norm": 0.5}, (), None),
        ({"loss": None}, (), None),
    ],
)
def test_what_is_not_finite_stands_by_name(feed, fields, wrong, loss):
    (step,), _ = feed({"type": "step", "step": 3, **fields})
    assert (step.nonfinite, step.loss) == (wrong, loss)


def test_literals_of_python_and_javascript_are_taken(feed):
    (step,), _ = feed(b'{"type":"step","step":3,"loss":NaN,"grad_norm":-Infinity,"lr":0.5}')
    assert step == Step(1, 3, lr=0.5, nonfinite=("loss", "grad_norm"))


def test_a_skipped_update_is_marked(feed):
    (step,), _ = feed({"type": "step", "step": 3, "loss": 2.5, "nonfinite": 1, "skipped": True})
    assert step.skipped
    assert step.nonfinite == ("grad_norm",)


@pytest.mark.parametrize(
    ("block", "ranks"),
    [
        ({"loss": [2.5, "nan", None], "grad_norm": [0.5, 0.5, "inf"]},
         Ranks(3, (2.5, None, None), (0.5, 0.5, None), nonfinite=(1, 2))),
        ({"n": 4096, "loss": {"median": 2.5, "mad": 0.125, "odd": {"31": 9.5, "7": "nan"}}},
         Ranks(4096, median=2.5, mad=0.125, odd=((31, 9.5),), nonfinite=(7,))),
        ({"n": 4096, "loss": {"odd": {"7": "nan"}}, "grad_norm": {"median": 0.5, "mad": 0.1, "odd": {"9": "inf"}}},
         Ranks(4096, nonfinite=(7, 9))),
    ],
)  # fmt: skip
def test_ranks_come_as_values_or_as_a_summary(feed, block, ranks):
    (step,), _ = feed({"type": "step", "step": 3, "loss": 2.5, "ranks": block})
    assert step.ranks == ranks


def test_the_other_messages(feed):
    facts, parser = feed(
        {"type": "run", "schema": 1, "attempt": 3, "world_size": 8, "start_step": 20, "total_steps": 90,
         "shards_total": 5, "hosts": ["a", "b"], "hook": True, "time": 4.5},
        {"type": "eval", "step": 30, "name": "val", "loss": "inf", "time": 5.5},
        {"type": "checkpoint", "step": 30, "path": "ck/30", "state": "failed", "time": 6.5},
        {"type": "shard", "hash": 5, "name": "web"},
        {"type": "end", "step": 90, "status": "completed", "time": 7.5},
    )  # fmt: skip
    assert facts == [
        Announced(3, 20, 90, 8, 5, ("a", "b"), True, 4.5),
        Eval(3, 30, "val", None, 5.5),
        Checkpoint(3, 30, "ck/30", "failed", time=6.5),
        Ended(3, 90, "completed", 7.5),
    ]
    assert parser.skipped == 0


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"[]", b"null", b"NaN", b"[" * 9000, b"\xff\xfe", b'{"step":1,"loss":2.5}', b'{"type":"step"}',
        b'{"type":"step","step":-1,"loss":2.5}', b'{"type":"step","step":"1","loss":2.5}',
        b'{"type":"step","step":1,"loss":[2.5]}', b'{"type":"step","step":1,"loss":NaN', b'{"type":"step" NaN',
        b'{"type":"step","step":1,"loss":2.5,"ranks":{"loss":{"odd":{"first":1.0}}}}',
        b'{"type":"rumour","step":1}', b'{"type":"checkpoint","step":1,"state":"eaten"}',
    ],
)  # fmt: skip
def test_a_broken_or_unknown_line_is_counted(feed, line):
    facts, parser = feed(line)
    assert facts == []
    assert parser.skipped == 1


def test_a_field_of_an_odd_kind_does_not_cost_the_record(feed):
    (step,), parser = feed({"type": "step", "step": 3, "loss": 2.5, "phase": 2, "anything": [{"x": None}]})
    assert (step.loss, step.phase, parser.skipped) == (2.5, "2", 0)


def test_a_second_run_in_one_text_is_the_next_attempt(feed):
    start = {"type": "run", "schema": 1, "attempt": 1, "start_step": 0}
    facts, _ = feed(start, {"type": "step", "step": 1, "loss": 2.5}, start, {"type": "step", "step": 1, "loss": 2.25})
    assert [(type(fact).__name__, fact.attempt) for fact in facts] == [
        ("Announced", 1), ("Step", 1), ("Announced", 2), ("Step", 2),
    ]  # fmt: skip


def test_the_hook_writes_what_the_parser_reads(feed):
    line = json.loads(messages.encode({"type": "step", "step": 1, "loss": math.inf, "lr": 1e-300}))
    (step,), _ = feed(line)
    assert step == Step(1, 1, lr=1e-300, nonfinite=("loss",))
