"""The benchmark's labels are true: a reader who knows the clean curve sees every planted fault, and nothing else."""

import json
import math

import generator
import numpy as np
import pytest
from labels import CLASSES, Run

from orchestrator import wire

RUNS = {name: generator.generate(name, 3) for name in generator.KINDS}
FAULTY = [name for name, run in RUNS.items() if run.expected]
HEALTHY = [name for name, run in RUNS.items() if not run.expected]


# Records that are odd by the kind's nature; where "relative to the level" or "the noise" says nothing, all of them.
ODD_RECORDS = {"first_steps": 60, "relaunch": 2, "heavy_tail": 5, "last_digit": 8, "negative": 3000, "rounded": 3000}


def losses(run: Run) -> list[tuple[int, float]]:
    """Step and loss of each record, NaN where it is missing."""
    steps = [m for m in run.messages if m["type"] == "step"]
    return [(m["step"], wire.number(m["loss"]) if "loss" in m else math.nan) for m in steps]  # type: ignore[misc]


def heights(run: Run, first: int, last: int) -> list[float]:
    """The losses of some steps as shares above the clean curve."""
    return [
        (loss - clean) / abs(clean)
        for (step, loss), clean in zip(losses(run), run.clean, strict=True)
        if first <= step <= last
    ]


@pytest.mark.parametrize("name", generator.KINDS)
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    again = generator.generate(name, 3)
    assert str(again.messages) == str(RUNS[name].messages)
    assert again.expected == RUNS[name].expected


def test_another_seed_gives_another_run() -> None:
    assert str(generator.generate("decay", 4).messages) != str(RUNS["decay"].messages)


@pytest.mark.parametrize("name", FAULTY)
def test_the_oracle_sees_every_fault_at_its_step(name: str) -> None:
    run = RUNS[name]
    for expected in run.expected:
        assert expected.lo <= expected.events[0].step <= expected.by
        for event in expected.events:
            if math.isfinite(event.height) and expected.kind != "rank_local":
                seen = max(heights(run, event.step, event.last))
                assert seen >= event.height - 4 * run.noise * (1 + event.height) - 0.01
                assert event.certain or run.line == 2


@pytest.mark.parametrize("name", [n for n in FAULTY if n.startswith("isolated")])
def test_an_isolated_spike_leaves_nothing_behind(name: str) -> None:
    run = RUNS[name]
    after = heights(run, run.expected[-1].events[-1].last + 1, 1 << 60)
    assert abs(float(np.mean(after))) <= 5 * run.noise / math.sqrt(len(after)) + 0.003


@pytest.mark.parametrize("name", [n for n in FAULTY if RUNS[n].expected[0].kind == "persistent"])
def test_a_persistent_fault_is_there_at_the_end(name: str) -> None:
    run = RUNS[name]
    assert float(np.mean(heights(run, 0, 1 << 60)[-50:])) >= 0.007 / 2


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_stays_near_its_clean_curve(name: str) -> None:
    run = RUNS[name]
    far = [h for h in heights(run, 0, 1 << 60) if not math.isfinite(h) or abs(h) > 8 * run.noise + 1e-3]
    assert len(far) <= ODD_RECORDS.get(name, 0)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_is_served_by_several_kinds(kind: str) -> None:
    assert sum(any(e.kind == kind for e in RUNS[name].expected) for name in FAULTY) >= 3


def test_ranks_are_named_where_one_is_odd() -> None:
    run = RUNS["rank_x3"]
    (expected,) = run.expected
    record = next(m for m in run.messages if m.get("step") == expected.fault)
    assert int(np.argmax(record["ranks"]["loss"])) == expected.rank
    summary = next(m for m in RUNS["rank_of_1024"].messages if m.get("step") == RUNS["rank_of_1024"].expected[0].fault)
    assert str(RUNS["rank_of_1024"].expected[0].rank) in summary["ranks"]["loss"]["odd"]


def test_a_file_holds_the_messages_line_by_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    run = RUNS["nan_once"]
    generator.write(run, tmp_path / "run.jsonl")
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    assert len(lines) == len(run.messages)
    at = next(k for k, m in enumerate(run.messages) if m.get("step") == run.expected[0].fault)
    assert json.loads(lines[at])["loss"] == "nan"


def test_no_onset_lies_before_the_25th_record() -> None:
    for name in FAULTY:
        first = [m["step"] for m in RUNS[name].messages if m["type"] == "step"][24]
        assert all(expected.fault >= first for expected in RUNS[name].expected)


def test_there_are_enough_healthy_steps() -> None:
    assert sum(RUNS[name].steps for name in HEALTHY) >= 90_000
