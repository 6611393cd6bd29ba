"""Curves of any length: extremes survive, memory does not grow, steps stay where they were."""

import random

from orchestrator.review.report_series import Curves


def test_the_extremes_of_a_long_curve_survive_at_their_steps():
    curves, chance = Curves(columns=50), random.Random(5)
    values = [chance.random() for _ in range(20_000)]
    values[12_345], values[777] = 9.0, -9.0
    for step, value in enumerate(values, 1):
        curves.add("loss", 1, step, value)
    points = curves.points("loss", 1)
    assert {(12_346, 9.0), (778, -9.0), (1, values[0]), (20_000, values[-1])} <= set(points)
    assert points == sorted(points)
    assert all(values[step - 1] == value for step, value in points)


def test_memory_is_that_of_a_picture_and_every_column_keeps_its_own_extremes():
    curves = Curves(columns=64)
    for step in range(1, 40_001):
        curves.add("loss", 1, step, float(step % 97))
    points = curves.points("loss", 1)
    assert len(points) <= 64 * 4
    for start in range(0, 40_000, curves.width):
        seen = [value for step, value in points if start <= step < start + curves.width]
        told = [float(step % 97) for step in range(max(start, 1), min(start + curves.width, 40_001))]
        assert (min(seen), max(seen)) == (min(told), max(told))


def test_attempts_share_the_width_and_keep_their_own_points():
    curves = Curves(columns=10)
    curves.add("loss", 1, 3, 1.0)
    curves.add("loss", 2, 3, 2.0)
    curves.add("loss", 2, 25, 5.0)
    assert curves.width == 4
    assert curves.points("loss", 1) == [(3, 1.0)]
    assert curves.points("loss", 2) == [(3, 2.0), (25, 5.0)]
    assert curves.at("loss", 2, 20) == 5.0
    assert curves.at("lr", 2, 20) is None
