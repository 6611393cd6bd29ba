"""What every detector plug-in owes: pure, constant work and memory, blind to nothing by what it flagged."""

import dataclasses
import doctest
import math
import pickle
import random

import pytest

from orchestrator import registry
from orchestrator.core.facts import Ranks, Reading, Step
from tests.simulation import policy_of

KINDS = registry.names("detectors")
ONE = ("ema_ratio", "mean_sigma", "robust_z", "update_ratio")  # those that judge a single record by its height
POLICY = "version: 1\ndetectors: {{one: {{kind: {}}}}}\n"


def made(kind):
    """The detector with its defaults, by the way a policy takes."""
    ((_, detector),) = registry.bind(policy_of(POLICY.format(kind))).detectors
    return detector


def record(step, noise, factor=1.0, **fields):
    """A record with every signal there is; `factor` makes all of them go wrong at once."""
    values = {
        "loss": 2.0 * factor + 0.02 * noise,
        "grad_norm": 0.5 * factor + 0.01 * noise,
        "lr": 1e-3,
        "clip": 1.0,
        "loss_scale": 65536.0,
        "update_norm": 0.1 * factor + 0.001 * noise,
        "param_norm": 100.0,
        "ranks": Ranks(4, (2.0, 2.0 + 0.01 * noise, 2.0, 2.0 * factor)),
    } | fields
    return Step(1, step, **values)


def stream(count, seed=1, begin=1):
    """Healthy records."""
    rng = random.Random(seed)
    return [record(step, rng.gauss(0.0, 1.0)) for step in range(begin, begin + count)]


def fed(detector, points, state=None):
    """The state after some records, and what was said of them."""
    state, said = detector.start() if state is None else state, []
    for point in points:
        state, reading = detector.update(state, point)
        said.append(reading)
    return state, said


def weight(state):
    """How much a state holds."""
    return len(pickle.dumps(state))


@pytest.mark.parametrize("kind", KINDS)
def test_its_defaults_are_a_policy_s_and_a_wrong_word_is_refused(kind):
    assert dataclasses.is_dataclass(made(kind))
    with pytest.raises(Exception, match="thresholt"):
        policy_of(f"version: 1\ndetectors: {{one: {{kind: {kind}, thresholt: 3}}}}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_pure(kind):
    detector, points = made(kind), stream(300)
    before = fed(detector, points)[0]
    kept = pickle.dumps(before)
    odd = record(301, 0.0, factor=30.0)
    assert detector.update(before, odd) == detector.update(before, odd)
    assert pickle.dumps(before) == kept
    assert detector == made(kind)
    assert fed(made(kind), points)[0] == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_stream_says_nothing_and_its_state_does_not_grow(kind):
    detector = made(kind)
    state, said = fed(detector, stream(2000))
    assert [reading for reading in said if reading] == []
    later, _ = fed(detector, stream(6000, begin=2001), state)
    assert weight(later) <= 1.2 * weight(state) + 64


@pytest.mark.parametrize("kind", ONE)
def test_a_flagged_point_never_enters_its_baseline(kind):
    """After a flagged point the same healthy record is judged, and learned, as if there had been none."""
    detector = made(kind)
    state, _ = fed(detector, stream(400))
    after, (reading,) = fed(detector, [record(401, 0.0, factor=30.0)], state)
    assert reading.baseline == pytest.approx(detector.update(state, record(401, 0.0, factor=60.0))[1].baseline)
    again = detector.update(after, record(402, 0.0, factor=30.0))[1]
    assert (again.baseline, again.threshold) == (reading.baseline, reading.threshold)
    assert [r for r in fed(detector, stream(200, seed=2, begin=402), after)[1] if r] == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_it_says_or_keeps_is_nan(kind):
    detector = made(kind)
    hard = [0.0, -3.0, 1e-300, 1e200, 1e308, 2.0, 2.0]
    points = [
        Step(1, step, loss=v, grad_norm=abs(v), lr=abs(v), clip=abs(v), update_norm=abs(v), param_norm=0.0,
             loss_scale=abs(v), ranks=Ranks(2, (v, v)))
        for step, v in enumerate(hard * 60, 1)
    ]  # fmt: skip
    points += [Step(1, 1000 + k) for k in range(5)] + [Step(1, 1005, nonfinite=("loss", "grad_norm"))]
    state, said = fed(detector, points)
    assert "nan" not in repr(state)
    for reading in filter(None, said):
        assert not any(isinstance(v, float) and math.isnan(v) for v in reading), reading


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nonfinite"])  # to it nothing is a sign
def test_a_record_without_its_signal_changes_nothing(kind):
    detector = made(kind)
    state, _ = fed(detector, stream(100))
    assert detector.update(state, Step(1, 101)) == (state, None)


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_rebase_another_level_is_the_level(kind):
    detector = made(kind)
    state, _ = fed(detector, stream(400))
    rng = random.Random(3)
    higher = [record(step, rng.gauss(0.0, 1.0), loss=3.0, grad_norm=0.9, update_norm=0.3) for step in range(401, 800)]
    assert [r for r in fed(detector, higher, detector.rebase(state))[1] if r] == []


@pytest.mark.parametrize("kind", KINDS)
def test_its_readings_name_it_and_its_example_runs(kind):
    detector = made(kind)
    state, _ = fed(detector, stream(400))
    points = [record(step, 0.0, factor=30.0, loss_scale=2.0 ** (16 - step + 400)) for step in range(401, 411)]
    points += [record(step, 0.0, loss=0.0) for step in range(411, 416)] + [Step(1, 416, nonfinite=("loss",))]
    points += [record(step, 0.0, loss=2.5, grad_norm=3.0) for step in range(417, 640)]
    said = [reading for reading in fed(detector, points, state)[1] if reading]
    assert said
    assert {(type(reading), reading.detector) for reading in said} == {(Reading, kind)}
    assert all(reading.step in {point.step for point in points} for reading in said)
    module = registry.load("detectors", kind)
    assert '"""' not in (module.__doc__ or "")
    assert module.__doc__
    assert doctest.testmod(module).failed == 0
