"""Runs whose loss does not come back: jumps, slow rises, worse levels, divergence."""

from collections.abc import Callable

import numpy as np
from labels import Expected, Kind, Run
from numpy.random import Generator
from series import gentle, labelled, lift, persistent, series
from spikes import change_cadence, edge, some_noise

FLAT = 0.0003  # the share of its level that a flat curve still loses in its first 200 records


def jump(height: float, within: int, most: float) -> Callable[[Generator], Run]:
    """A rise by `height` that stays, at noise 0.5 %; `most` is the slope of `gentle`."""

    def make(rng: Generator) -> Run:
        s = series(rng, gentle(rng, 1600, most), 0.005)
        at = int(rng.integers(400, 1000))
        return labelled(s, persistent(s, at, lift(s, at, height), within))

    return make


def jump_noisy(rng: Generator) -> Run:
    """A certain jump at any noise."""
    noise = some_noise(rng)
    s = series(rng, gentle(rng, 1600), noise)
    at = int(rng.integers(400, 1000))
    return labelled(s, persistent(s, at, lift(s, at, edge(noise) * rng.uniform(1.1, 3)), 200))


def jump_noise_30(rng: Generator) -> Run:
    """Three to five times the level under noise of 30 %."""
    s = series(rng, gentle(rng, 1600), 0.3)
    at = int(rng.integers(400, 1000))
    return labelled(s, persistent(s, at, lift(s, at, rng.uniform(2.2, 4)), 200))


def jump_wandering(rng: Generator) -> Run:
    """A jump under noise that remembers."""
    noise = some_noise(rng, 0.003, 0.01)
    s = series(rng, gentle(rng, 1600), noise, "ar1")
    at = int(rng.integers(400, 1000))
    return labelled(s, persistent(s, at, lift(s, at, edge(noise) * rng.uniform(1, 2)), 200))


def jump_short(rng: Generator) -> Run:
    """A jump at the 25th to 60th record of a log that begins in mid-run."""
    noise = some_noise(rng, 0.002, 0.01)
    s = series(rng, gentle(rng, 300), noise)
    if rng.random() < 0.5:
        s.launches.clear()
    at = int(rng.integers(24, 60))
    return labelled(s, persistent(s, at, lift(s, at, edge(noise) * rng.uniform(1.3, 5)), 150))


def jump_coarse(every: int) -> Callable[[Generator], Run]:
    """A jump in a log of every so many steps."""

    def make(rng: Generator) -> Run:
        noise = some_noise(rng, 0.002, 0.01)
        s = series(rng, gentle(rng, 400), noise, every=every)
        at = int(rng.integers(100, 250))
        return labelled(s, persistent(s, at, lift(s, at, rng.uniform(0.1, 0.6)), 60 + 10 * every, 3))

    return make


def jump_new_cadence(rng: Generator) -> Run:
    """The log becomes ten times coarser shortly before the jump."""
    s = series(rng, gentle(rng, 900), some_noise(rng, 0.002, 0.01))
    change_cadence(s, 500, 10)
    at = int(rng.integers(510, 700))
    return labelled(s, persistent(s, at, lift(s, at, rng.uniform(0.1, 0.6)), 200, 3))


def slow_rise(rng: Generator) -> Run:
    """15 % over 1,000 to 3,000 steps, then the new level."""
    length = int(rng.integers(1000, 3001))
    s = series(rng, gentle(rng, 900 + length + 500, FLAT), some_noise(rng, 0.003, 0.01))
    height = 0.15 * np.minimum(np.arange(length + 500) / length, 1.0)
    event = lift(s, 900, height)
    lo, hi, by = (int(s.steps[k]) for k in (850, 900 + length, 900 + length + 200))
    return labelled(s, Expected("persistent", lo, hi, event.step, by, (event,)))


def worse_level(rng: Generator) -> Run:
    """A spike that falls back, but only to 3 % to 10 % above the old level."""
    s = series(rng, gentle(rng, 1600), some_noise(rng, 0.002, 0.005))
    at = int(rng.integers(400, 900))
    rest, fall = rng.uniform(0.03, 0.1), rng.uniform(8, 30)
    event = lift(s, at, rest + rng.uniform(0.4, 3) * np.exp(-np.arange(1600 - at) / fall))
    s.grad_norm[at : at + 3] *= 20
    return labelled(s, persistent(s, at, event, 300))


def divergence(rng: Generator) -> Run:
    """Growth to five times the level over 100 to 400 steps."""
    s = series(rng, gentle(rng, 1600), some_noise(rng, 0.002, 0.02))
    at, length = int(rng.integers(400, 900)), int(rng.integers(100, 401))
    grown = np.minimum(np.arange(1, 1601 - at) / length, 1.0)
    event = lift(s, at, 5.0**grown - 1)
    s.grad_norm[at:] *= 10.0**grown
    return labelled(s, persistent(s, at, event, length, max(20, length // 4)))


KINDS = {
    "jump_075_flat": Kind(jump(0.0075, 128, FLAT), 2),
    "jump_075_falling": Kind(jump(0.0075, 128, 0.006), 2),
    "jump_150": Kind(jump(0.015, 128, 0.006), 2),
    "jump_300": Kind(jump(0.03, 32, 0.006), 2),
    "slow_rise": Kind(slow_rise, 2),
    "jump_10": Kind(jump(0.1, 100, 0.006), 1),
    "jump_50": Kind(jump(0.5, 100, 0.006), 1),
    "jump_x3": Kind(jump(2.0, 100, 0.006), 1),
} | {
    make.__name__: Kind(make, 1)
    for make in (
        jump_noisy, jump_noise_30, jump_wandering, jump_short, jump_new_cadence, worse_level, divergence,
    )
} | {f"jump_every_{every}": Kind(jump_coarse(every), 1) for every in (5, 10, 100, 500)}  # fmt: skip
