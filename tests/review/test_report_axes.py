"""Scales and ranges: what is drawn can be read."""

from itertools import pairwise

import pytest

from orchestrator.review.report_axes import Scale, extent, log_ticks, ticks


def test_values_outside_are_drawn_at_the_edge():
    scale = Scale(0.0, 10.0, 100.0, 0.0)
    assert [scale(v) for v in (-5.0, 0.0, 2.5, 10.0, 1e9)] == [100.0, 100.0, 75.0, 0.0, 0.0]


def test_a_logarithmic_scale_gives_equal_room_to_equal_factors():
    scale = Scale(1.0, 100.0, 0.0, 200.0, log=True)
    assert scale(10.0) == pytest.approx(100.0)
    assert scale(-1.0) == 0.0


def test_a_single_blow_up_does_not_flatten_the_rest():
    usual = [2.0 + 0.01 * (i % 10) for i in range(1000)]
    low, high = extent([*usual, 1e9])
    assert low == 2.0
    assert high < 3.0
    assert extent([*usual, 2.4]) == (2.0, 2.4)


def test_a_constant_has_room_around_it():
    low, high = extent([3.0] * 5)
    assert low < 3.0 < high
    low, high = extent([0.0])
    assert low < 0.0 < high


@pytest.mark.parametrize(("low", "high"), [(0, 7), (0, 1_000_000), (0.0, 3.3e-4), (-2.0, 5.0)])
def test_ticks_are_few_even_and_inside(low, high):
    found = ticks(low, high, 6)
    assert 2 <= len(found) <= 7
    assert all(low <= value <= high for value in found)
    gaps = {round((b - a) / (found[1] - found[0]), 6) for a, b in pairwise(found)}
    assert gaps == {1.0}


def test_log_ticks_stay_readable_over_many_decades():
    assert log_ticks(0.9, 12.0) == [1.0, 2.0, 3.0, 5.0, 8.0, 10.0]
    assert log_ticks(0.5, 2e5) == [1.0, 10.0, 100.0, 1000.0, 1e4, 1e5]
