"""Runs with a loss of every rank, one of them odd; the run's own loss is their mean."""

from collections.abc import Callable

import numpy as np
from labels import Event, Expected, Kind, Run
from numpy.random import Generator
from series import Series, cut, gentle, isolated, labelled, series, spike
from spikes import edge

RECORDS = 900


def ranked(rng: Generator, world: int, noise: float, offsets: float = 0.02, records: int = RECORDS) -> Series:
    """A healthy run of `world` ranks with noise and a lasting offset of each rank's own."""
    s = series(rng, gentle(rng, records), 0.0)
    own = 1 + offsets * rng.uniform(-1, 1, world)
    s.ranks = s.clean[:, None] * (own + noise * rng.standard_normal((records, world)))
    s.world = world
    s.clean = s.clean * float(own.mean())
    s.noise = float(noise / np.sqrt(world))
    s.loss = s.ranks.mean(axis=1)
    return s


def _expected(s: Series, at: int, last: int, rank: int, height: float, noise: float) -> Expected:
    step = int(s.steps[at])
    event = Event(step, int(s.steps[last]), height, height / noise)
    return Expected("rank_local", int(s.steps[at - 1]), step + 10, step, step + 10, (event,), rank)


def odd_rank(world: int, low: float, high: float) -> Callable[[Generator], Run]:
    """One rank at `low` to `high` times its loss for 40 to 300 steps."""

    def make(rng: Generator) -> Run:
        noise = rng.uniform(0.01, 0.03)
        s = ranked(rng, world, noise)
        assert s.ranks is not None
        at, rank, factor = int(rng.integers(200, 500)), int(rng.integers(world)), rng.uniform(low, high)
        last = at + int(rng.integers(40, 300))
        s.ranks[at : last + 1, rank] *= factor
        s.loss = s.ranks.mean(axis=1)
        return labelled(s, _expected(s, at, last, rank, factor - 1, noise))

    return make


def nan_rank(world: int) -> Callable[[Generator], Run]:
    """One rank is NaN for one to ten steps; the trainer's mean leaves it out."""

    def make(rng: Generator) -> Run:
        s = ranked(rng, world, rng.uniform(0.01, 0.03))
        assert s.ranks is not None
        at, rank = int(rng.integers(200, 500)), int(rng.integers(world))
        last = at + int(rng.integers(0, 10))
        s.ranks[at : last + 1, rank] = np.nan
        s.loss = np.nanmean(s.ranks, axis=1)
        wanted = _expected(s, at, last, rank, np.inf, 1.0)
        return labelled(s, wanted._replace(hi=wanted.fault, by=wanted.fault))

    return make


def nan_spreads(rng: Generator) -> Run:
    """One rank is NaN, all are from the next step on: the first is the origin, and both are told."""
    s = ranked(rng, 8, rng.uniform(0.01, 0.03))
    assert s.ranks is not None
    at, rank = int(rng.integers(200, 500)), int(rng.integers(8))
    s.ranks[at, rank] = np.nan
    s.loss = np.nanmean(s.ranks, axis=1)
    s.ranks[at + 1 :] = s.loss[at + 1 :] = s.grad_norm[at + 1 :] = np.nan
    first = _expected(s, at, at, rank, np.inf, 1.0)
    told = int(s.steps[at + 1])
    then = Expected("nonfinite", told, told, told, told, (Event(told, told + 20, np.inf, np.inf),))
    return labelled(cut(s, at + 20), first._replace(hi=first.fault, by=first.fault), then)


def all_ranks_spike(rng: Generator) -> Run:
    """Every rank is high in the same step: that is no rank's fault."""
    s = ranked(rng, 8, rng.uniform(0.01, 0.03))
    assert s.ranks is not None
    at = int(rng.integers(200, 600))
    event = spike(s, at, [edge(s.noise) * rng.uniform(2, 5)], 5)
    s.ranks[at] *= s.loss[at] / s.ranks[at].mean()
    return labelled(s, isolated(s, at, event))


KINDS = {
    "rank_x135": Kind(odd_rank(8, 1.35, 1.35), 1),
    "rank_x2": Kind(odd_rank(8, 1.5, 2), 1),
    "rank_x3": Kind(odd_rank(8, 3, 3), 1),
    "rank_of_64": Kind(odd_rank(64, 1.35, 3), 1),
    "rank_of_1024": Kind(odd_rank(1024, 1.35, 3), 1),
    "rank_nan": Kind(nan_rank(8), 1),
    "rank_nan_of_1024": Kind(nan_rank(1024), 1),
    "rank_nan_spreads": Kind(nan_spreads, 1),
    "all_ranks_spike": Kind(all_ranks_spike, 1),
}
