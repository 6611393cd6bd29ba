"""Runs that nothing is wrong with, of the kinds that make detectors fire."""

from collections.abc import Callable

import numpy as np
from labels import Floats, Kind, Run
from numpy.random import Generator
from ranks import ranked
from series import Law, Series, fresh_start, gentle, labelled, series
from spikes import change_cadence, some_noise

RECORDS = 3000


def smooth(law: Law, low: float = 0.002, high: float = 0.04) -> Callable[[Generator], Run]:
    """A slowly falling loss under one law of noise."""

    def make(rng: Generator) -> Run:
        return labelled(series(rng, gentle(rng, RECORDS), some_noise(rng, low, high), law))

    return make


def first_steps(rng: Generator) -> Run:
    """From step 1: a wild beginning, a fast fall, a slow one; warm-up of 200 to 1,000 steps."""
    s = _from_scratch(rng)
    wild = np.exp(-np.arange(RECORDS) / 15)
    s.loss += wild * 0.08 * s.clean * rng.standard_normal(RECORDS)
    s.grad_norm *= 1 + 20 * wild
    return labelled(s)


def _from_scratch(rng: Generator) -> Series:
    s = series(rng, fresh_start(rng, RECORDS), some_noise(rng, 0.003, 0.02), first=1)
    warm = int(rng.integers(200, 1000))
    s.lr = 6e-4 * np.minimum(np.arange(RECORDS) / warm, 1 - np.arange(RECORDS) / 20000)
    return s


def warmup_end(rng: Generator) -> Run:
    """The loss swells by 2 % to 6 % while the rate comes to its peak, and settles within 200 steps of it."""
    s = _from_scratch(rng)
    top, t = int(np.argmax(s.lr)), np.arange(RECORDS)
    width = np.where(t < top, rng.uniform(60, 120), rng.uniform(40, 80))
    return labelled(_bump(s, rng.uniform(0.02, 0.06) * np.exp(-(((t - top) / width) ** 2))))


def _bump(s: Series, share: Floats) -> Series:
    s.loss = s.loss * (1 + share)
    s.clean = s.clean * (1 + share)
    return s


def plateau(rng: Generator) -> Run:
    """A loss that no longer falls."""
    return labelled(series(rng, np.full(RECORDS, rng.uniform(0.5, 4)), some_noise(rng)))


def phase_switches(*changes: tuple[float, float]) -> Callable[[Generator], Run]:
    """Declared switches; each moves the loss by a share between its two bounds, and most of a rise decays again."""

    def make(rng: Generator) -> Run:
        s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
        places = [int(900 * (k + 1) + rng.integers(-200, 200)) for k in range(len(changes))]
        share = np.zeros(RECORDS)
        for at, (low, high) in zip(places, changes, strict=True):
            height, t = rng.uniform(low, high), np.arange(RECORDS - at)
            rest = rng.uniform(0, 0.3) if height > 0 else 1.0
            share[at:] += height * (rest + (1 - rest) * np.exp(-t / rng.uniform(100, 300)))
        for k, extra in enumerate(s.extra):
            extra["phase"] = f"part-{sum(k >= at for at in places)}"
        return labelled(_bump(s, share), planned=places)

    return make


def phase_down_and_back(rng: Generator) -> Run:
    """A declared switch to easier data, and a declared one back to the old level."""
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    there, back = int(rng.integers(700, 1000)), int(rng.integers(1700, 2100))
    share = np.zeros(RECORDS)
    share[there:back] = -rng.uniform(0.1, 0.3)
    for k, extra in enumerate(s.extra):
        extra["phase"] = "code" if there <= k < back else "web"
    return labelled(_bump(s, share), planned=(there, back))


def rate_restart(rng: Generator) -> Run:
    """The learning rate doubles; the loss rises by up to 8 % over some tens of steps and falls back."""
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    at = int(rng.integers(800, 1500))
    t = np.arange(RECORDS - at)
    s.lr[at:] *= 2
    share = np.zeros(RECORDS)
    share[at:] = rng.uniform(0.02, 0.08) * (1 - np.exp(-t / rng.uniform(10, 40))) * np.exp(-t / rng.uniform(200, 400))
    return labelled(_bump(s, share), planned=(at,))


def batch_ramp(rng: Generator) -> Run:
    """The batch grows eightfold in stages, the noise shrinks with it; the grad norm as well."""
    s = series(rng, gentle(rng, RECORDS), 0.04)
    size = 2.0 ** np.minimum(np.arange(RECORDS) // 700, 3)
    s.loss = s.clean + (s.loss - s.clean) / np.sqrt(size)
    s.grad_norm /= size**0.25
    for extra, factor in zip(s.extra, size, strict=True):
        extra["tokens"] = int(65536 * factor)
    return labelled(s)


def grad_creep(rng: Generator) -> Run:
    """The grad norm grows threefold over the run, and the loss does not care."""
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    s.grad_norm *= np.geomspace(1, 3, RECORDS)
    return labelled(s)


def grad_outliers(rng: Generator) -> Run:
    """Single high grad norms without consequence."""
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    s.grad_norm[rng.choice(np.arange(200, RECORDS), 10, replace=False)] *= rng.uniform(5, 12, 10)
    return labelled(s)


def loss_scaler(rng: Generator) -> Run:
    """fp16: six halvings at the start, then one overflow after each doubling; those updates are skipped."""
    s = series(rng, fresh_start(rng, RECORDS), some_noise(rng, 0.003, 0.02), first=1)
    scale, good = 65536.0, 0
    every, counted = int(rng.integers(80, 200)), rng.random() < 0.5
    for k, extra in enumerate(s.extra):
        good += 1
        if k < 6 or (good > every and rng.random() < 0.2):
            scale, good = scale / 2, 0
            extra |= {"grad_norm": float("inf"), "skipped": True} | ({"nonfinite": 1} if counted else {})
        elif good == every and scale < 65536:
            scale *= 2
        extra["loss_scale"] = scale
    return labelled(s)


def _again(s: Series, back: int, at: int) -> Series:
    """The run with records [back, at) logged a second time after record `at - 1`."""
    order = np.concatenate([np.arange(at), np.arange(back, len(s))])
    s.extra = [dict(s.extra[k]) for k in order]
    s.steps, s.clean, s.loss, s.grad_norm, s.lr = (
        part[order] for part in (s.steps, s.clean, s.loss, s.grad_norm, s.lr)
    )
    return s


def relaunch(rng: Generator) -> Run:
    """A second attempt from a checkpoint; its first two records carry what an accumulator held."""
    at, lost = int(rng.integers(1000, 2000)), int(rng.integers(20, 400))
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    start = int(s.steps[at - lost - 1])
    s = _again(s, at - lost, at)
    s.launches[at] = start
    fresh = s.noise * rng.standard_normal(lost) * s.clean[at : at + lost]
    s.loss[at : at + lost] = s.clean[at : at + lost] + fresh
    s.loss[at : at + 2] *= 1 + np.array([1.0, 0.5]) * rng.uniform(-0.5, 1.0)
    return labelled(s)


def logged_twice(rng: Generator) -> Run:
    """The steps since the checkpoint stand in the log twice, the same values, and no message says why."""
    at, lost = int(rng.integers(1000, 2000)), int(rng.integers(10, 200))
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    return labelled(_again(s, at - lost, at))


def rounded(rng: Generator) -> Run:
    """Two or three decimals, coarser than the noise."""
    s = series(rng, gentle(rng, RECORDS, 0.001), 0.0008)
    s.loss = np.round(s.loss, int(rng.integers(2, 4)))
    return labelled(s)


def last_digit(rng: Generator) -> Run:
    """A tiny loss of which only the last digit is left: single records are twice the others."""
    s = series(rng, np.full(RECORDS, 0.0003), 0.0)
    s.loss[rng.choice(np.arange(100, RECORDS), 8, replace=False)] = 0.0004
    return labelled(s)


def constant(rng: Generator) -> Run:
    """The same number in every record."""
    return labelled(series(rng, np.full(RECORDS, round(rng.uniform(0.5, 4), 4)), 0.0))


def negative(rng: Generator) -> Run:
    """A loss that crosses zero and goes on falling."""
    s = series(rng, gentle(rng, RECORDS), 0.01)
    shift = float(s.clean[RECORDS // 2]) + np.linspace(-0.3, 0.3, RECORDS)
    s.clean, s.loss = s.clean - shift, s.loss - shift
    return labelled(s)


def evaluated(rng: Generator) -> Run:
    """Evaluations every 100 steps, higher than the training loss and noisier."""
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    for k in range(99, RECORDS, 100):
        s.evals[k] = float(s.clean[k] * (1.15 + 0.01 * rng.standard_normal()))
    return labelled(s)


def shards_differ(rng: Generator) -> Run:
    """Another shard every 50 steps, up to 1 % easier or harder than the mean."""
    s = series(rng, gentle(rng, RECORDS), 0.005)
    share = np.repeat(rng.uniform(-0.01, 0.01, RECORDS // 50), 50)
    for k, extra in enumerate(s.extra):
        extra["shards"] = [f"web-{k // 50:05d}"]
    return labelled(_bump(s, share))


def epochs(rng: Generator) -> Run:
    """The loss steps down at the end of every epoch."""
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    return labelled(_bump(s, np.power(0.94, np.arange(RECORDS) // 750) - 1.0))


def drop_undeclared(rng: Generator) -> Run:
    """The loss falls by a third at once, and nobody said it would."""
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    share = np.zeros(RECORDS)
    share[int(rng.integers(800, 2000)) :] = -0.33
    return labelled(_bump(s, share))


def low_stretch(rng: Generator) -> Run:
    """A dozen records of trivial data at a seventh of the loss; the way back up is no rise."""
    s = series(rng, gentle(rng, RECORDS), some_noise(rng, 0.003, 0.02))
    at = int(rng.integers(500, 2500))
    share = np.zeros(RECORDS)
    share[at : at + 12] = -0.85
    return labelled(_bump(s, share))


def coarse(every: int) -> Callable[[Generator], Run]:
    """A log of every so many steps; 600 records of it."""

    def make(rng: Generator) -> Run:
        return labelled(series(rng, gentle(rng, 600), some_noise(rng, 0.002, 0.02), every=every))

    return make


def new_cadence(rng: Generator) -> Run:
    """Every step, then every ten."""
    s = series(rng, gentle(rng, 1500), some_noise(rng, 0.002, 0.02))
    change_cadence(s, 1000, 10)
    return labelled(s)


def ranks_apart(world: int, noise: float, offsets: float) -> Callable[[Generator], Run]:
    """Ranks that differ for good and scatter, none of them odd."""

    def make(rng: Generator) -> Run:
        return labelled(ranked(rng, world, noise, offsets, 1000))

    return make


KINDS = {
    "decay": Kind(smooth("normal"), 3),
    "wandering": Kind(smooth("ar1", 0.003, 0.02), 3),
    "heavy_tail": Kind(smooth("student", 0.003, 0.008), 3),
    "noise_30": Kind(smooth("normal", 0.3, 0.3001), 3),
    "noise_30_skewed": Kind(smooth("gamma", 0.3, 0.3001), 3),
    "phase_up": Kind(phase_switches((0.05, 0.15)), 3),
    "phase_down": Kind(phase_switches((-0.35, -0.1)), 3),
    "phase_thrice": Kind(phase_switches((-0.2, -0.05), (0.02, 0.15), (0.05, 0.15)), 3),
    "ranks_apart": Kind(ranks_apart(8, 0.02, 0.05), 3),
    "ranks_noisy": Kind(ranks_apart(8, 0.1, 0.02), 3),
    "ranks_of_64": Kind(ranks_apart(64, 0.05, 0.03), 3),
    "ranks_of_1024": Kind(ranks_apart(1024, 0.03, 0.02), 3),
    "every_10": Kind(coarse(10), 3),
    "every_100": Kind(coarse(100), 3),
} | {
    make.__name__: Kind(make, 3)
    for make in (
        first_steps, warmup_end, plateau, phase_down_and_back, rate_restart, batch_ramp, grad_creep, grad_outliers,
        loss_scaler, relaunch, logged_twice, rounded, last_digit, constant, negative, evaluated, shards_differ,
        epochs, drop_undeclared, low_stretch, new_cadence,
    )
}  # fmt: skip
