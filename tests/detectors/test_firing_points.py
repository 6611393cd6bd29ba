"""Where each detector fires on a given stream: exactly there, first and last."""

import pytest

from orchestrator import registry
from orchestrator.core.facts import Ranks, Step
from tests.simulation import noise


def fired(kind, records, **parameters):
    """The steps at which a detector says something."""
    detector = registry.detector({"kind": kind, **parameters})
    state, steps = detector.start(), []
    for point in records:
        state, reading = detector.update(state, point)
        if reading is not None:
            steps.append(point.step)
    return steps


def losses(*pieces):
    """Records from (how many, level) pieces, with a small repeatable noise."""
    levels = [level for count, level in pieces for _ in range(count)]
    return [Step(1, step, loss=level + noise(step)) for step, level in enumerate(levels, 1)]


def norms(*pieces):
    return [Step(1, point.step, grad_norm=point.loss) for point in losses(*pieces)]


@pytest.mark.parametrize(
    ("kind", "parameters", "points", "steps"),
    [
        ("robust_z", {}, losses((100, 2.0), (1, 2.15), (20, 2.0)), [101]),
        ("robust_z", {}, losses((100, 2.0), (1, 2.10), (20, 2.0)), []),  # five per cent are for the level
        ("robust_z", {}, losses((50, 2.0), (1, 900.0), (20, 2.0), (3, 3.5)), [51, 72, 73, 74]),
        ("robust_z", {"window": 10}, losses((60, 2.0), (40, 3.0)), [*range(61, 71)]),  # then it is the level
        ("robust_z", {}, losses((5, 2.0), (1, 4.0), (5, 2.0)), [6]),
        ("robust_z", {"signal": "grad_norm", "floor": 0.5}, norms((60, 1.0), (1, 1.4), (9, 1.0), (1, 1.6)), [71]),
        ("mean_sigma", {}, losses((70, 2.0), (1, 2.1), (20, 2.0)), [71]),
        ("mean_sigma", {}, losses((63, 2.0), (1, 9.0), (20, 2.0)), []),  # half a window comes first
        ("mean_sigma", {"points": 16}, losses((20, 2.0), (30, 3.0)), [*range(21, 37)]),
        ("ema_ratio", {}, losses((20, 2.0), (1, 2.9), (5, 2.0), (2, 3.1)), [27, 28]),
        ("ema_ratio", {}, losses((20, -2.0), (2, 4.0)), []),
        ("level_shift", {}, losses((320, 2.0), (80, 2.06)), [336, 344, 352, 360, 368, 376, 384, 392, 400]),
        ("level_shift", {}, losses((320, 2.06), (80, 2.0)), []),
    ],
)  # fmt: skip
def test_levels_and_heights(kind, parameters, points, steps):
    assert fired(kind, points, **parameters) == steps


def test_batches_of_two_kinds_are_their_noise():
    """Every fifth batch is of a dataset a third harder: the wider one is the yardstick, also in a young log."""
    records = [Step(1, s, loss=(2.7 if s % 5 == 0 else 2.0) + noise(s, 0.05)) for s in range(1, 300)]
    assert fired("robust_z", records) == []
    assert fired("robust_z", [*records, Step(1, 300, loss=6.0)]) == [300]


def test_a_slow_rise_that_no_window_sees():
    points = [Step(1, step, loss=2.0 * (1.0 + max(step - 1000, 0) * 3e-5) + noise(step)) for step in range(1, 6000)]
    first, *_ = fired("level_shift", points)
    assert 2000 < first < 4700  # 3 % to 11 % above


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"nonfinite": ("loss",)}, [11, 12]),
        ({"nonfinite": ("grad_norm",), "loss": 0.0}, [11, 12]),
        ({}, [12]),  # a loss that vanished
        ({"nonfinite": ("grad_norm",), "loss": 2.0, "loss_scale": 1024.0}, []),  # the scaler skips it
        ({"loss": 2.0, "ranks": Ranks(2, (2.0, None), nonfinite=(1,))}, [11, 12]),
    ],
)
def test_masks_of_nan(fields, steps):
    points = [*losses((10, 2.0)), *(Step(1, step, **fields) for step in (11, 12)), Step(1, 13, loss=2.0)]
    assert fired("nonfinite", points) == steps


def test_twenty_overflows_in_a_row_are_no_routine():
    over = [Step(1, step, loss=2.0, nonfinite=("grad_norm",), loss_scale=2.0) for step in range(11, 33)]
    assert fired("nonfinite", [*losses((10, 2.0)), *over]) == [30, 31, 32]


def ranks(count, odd, begin, factor, slow=1.0):
    """Records of eight ranks: one is always `slow` times the others, one `factor` times from `begin` on."""

    def loss(step, rank):
        height = (slow if rank == 1 else 1.0) * (factor if rank == odd and step >= begin else 1.0)
        return 2.0 * height + noise(step + rank)

    return [Step(1, s, ranks=Ranks(8, tuple(loss(s, rank) for rank in range(8)))) for s in range(1, count + 1)]


def test_an_odd_rank_is_flagged_at_its_third_record_and_a_slow_one_never():
    assert fired("rank_peers", ranks(40, 5, 31, 1.35))[0] == 33
    assert fired("rank_peers", ranks(40, 5, 999, 1.0, slow=1.1)) == []


def test_a_summary_of_many_ranks():
    def summary(step, odd):
        return Step(1, step, ranks=Ranks(16384, median=2.0, mad=0.01, odd=((317, 9.0),) if odd else ()))

    assert fired("rank_peers", [summary(step, step >= 20) for step in range(1, 25)]) == [22, 23, 24]


def scales(*values):
    return [Step(1, step, loss_scale=float(value)) for step, value in enumerate(values, 1)]


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([2.0**16 / 2**k for k in range(7)] + [1024] * 300, []),  # start-up
        ([1024] * 120 + [512] * 50 + [1024] * 200 + [512, 256, 512, 256] * 40, []),  # routine
        ([1024] * 120 + [1024 / 2**k for k in range(1, 8)], [125, 126, 127]),
        ([2.0**16 / 2**k for k in range(17)], [17]),  # down to one at once
        ([1.0] * 200, []),
    ],
)
def test_a_scale_that_only_falls(values, steps):
    assert fired("loss_scale", scales(*values)) == steps


@pytest.mark.parametrize(
    ("points", "steps"),
    [
        ([Step(1, s, loss=2.0 if s < 10 else 0.0, lr=1e-3) for s in range(1, 14)], [12, 13]),
        ([Step(1, s, loss=0.01 if s < 10 else 0.0, lr=1e-3) for s in range(1, 14)], []),  # rounded away
        ([Step(1, s, loss=2.0, lr=1e-3 if s < 10 else 0.0) for s in range(1, 13)], [12]),
        ([Step(1, s, loss=2.0, lr=max(1e-3 * (1 - s / 100), 0.0)) for s in range(1, 110)], []),  # a plan's end
        ([Step(1, s, loss=2.0, lr=0.0 if s < 5 else 1e-5 * s) for s in range(1, 50)], []),  # a plan's beginning
        ([Step(1, s, loss=2.0, lr=round(2e-5 * (1 - s / 100), 5)) for s in range(1, 100)], []),  # printed with five
        ([Step(1, s, loss=0.0) for s in range(1, 50)], []),  # it never was anything else
    ],
)
def test_training_that_does_nothing(points, steps):
    assert fired("silent", points) == steps


def test_clipping_that_never_rests_is_said_once_a_window():
    points = [Step(1, s, grad_norm=3.0 if s % 3 else 0.5, clip=1.0) for s in range(1, 500)]
    assert fired("clip_saturation", points) == [200, 401]
    assert fired("clip_saturation", [p._replace(clip=4.0) for p in points]) == []


def test_larger_updates_lead():
    points = [Step(1, s, update_norm=0.1 if s < 60 else 0.25, param_norm=100.0 + s) for s in range(1, 63)]
    assert fired("update_ratio", points) == [60, 61, 62]
    assert fired("update_ratio", points, above=3.0) == []


def test_the_onset_of_a_level_is_where_it_rose_though_one_block_of_it_lies_low():
    """Eight points of the raised level look like the old one; the rise began before them."""
    detector = registry.detector({"kind": "level_shift"})
    state, onsets = detector.start(), []
    for point in losses((320, 2.0), (32, 2.03), (8, 2.0), (40, 2.03)):
        state, reading = detector.update(state, point)
        onsets += [reading.onset] if reading else []
    assert onsets
    assert set(onsets) == {321}


def test_a_level_that_a_resume_took_back_is_no_part_of_the_next_one():
    detector = registry.detector({"kind": "level_shift"})
    again = [point._replace(attempt=2, step=step) for step, point in enumerate(losses((96, 2.02)), 301)]
    state, levels = detector.start(), []
    for point in (*losses((320, 2.0), (80, 6.0)), *again):
        state, reading = detector.update(state, point)
        if reading is not None and point.attempt == 2:
            levels.append((round(reading.value, 1), reading.onset))
    assert levels
    assert set(levels) == {(2.0, 301)}
