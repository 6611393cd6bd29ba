"""Runs with excursions that come back: isolated ones and repeated ones."""

from collections.abc import Callable

import numpy as np
from labels import Event, Expected, Kind, Run
from numpy.random import Generator
from series import Series, gentle, isolated, labelled, series, spike


def some_noise(rng: Generator, low: float = 0.002, high: float = 0.04) -> float:
    """A relative deviation between 0.2 % and 4 %, small ones as likely as large ones."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def edge(noise: float) -> float:
    """The lowest height that has to be found."""
    return max(0.07, 7 * noise)


def _place(rng: Generator, records: int) -> int:
    return int(rng.integers(300, records - 300))


def _heights(rng: Generator, low: float, high: float, most: int = 4) -> list[float]:
    top = rng.uniform(low, high)
    return [float(max(low, top * rng.uniform(0.8, 1.0))) for _ in range(rng.integers(1, most + 1))]


def isolated_edge(rng: Generator) -> Run:
    """The lowest certain height, one record, no sign in the grad norm."""
    noise = some_noise(rng)
    s = series(rng, gentle(rng, 1500), noise)
    at = _place(rng, 1500)
    return labelled(s, isolated(s, at, spike(s, at, [edge(noise) * rng.uniform(1.0, 1.15)])))


def isolated_medium(rng: Generator) -> Run:
    """Two spikes of 10 % to 100 %, one to four records each, too few to count as repeated."""
    noise = some_noise(rng)
    s = series(rng, gentle(rng, 2400), noise)
    out = []
    for at in (int(rng.integers(300, 900)), int(rng.integers(1500, 2100))):
        heights = _heights(rng, max(0.1, edge(noise)), max(1.0, 2 * edge(noise)))
        out.append(isolated(s, at, spike(s, at, heights, rng.uniform(1, 20))))
    return labelled(s, *out)


def isolated_huge(rng: Generator) -> Run:
    """Three to fifty times the level."""
    s = series(rng, gentle(rng, 1500), some_noise(rng))
    at = _place(rng, 1500)
    height = float(np.exp(rng.uniform(np.log(2), np.log(49))))
    return labelled(s, isolated(s, at, spike(s, at, [height] * int(rng.integers(1, 4)), 20)))


def isolated_grad_leads(rng: Generator) -> Run:
    """The grad norm is high for one to five records before the loss is."""
    noise = some_noise(rng, 0.002, 0.02)
    s = series(rng, gentle(rng, 1500), noise)
    at, lead = _place(rng, 1500), int(rng.integers(1, 6))
    s.grad_norm[at - lead : at] *= np.geomspace(rng.uniform(4, 8), 60, lead)
    event = spike(s, at, _heights(rng, max(0.3, edge(noise)), 1.5), 100)
    return labelled(s, isolated(s, at, event, lead))


def isolated_slow_fall(rng: Generator) -> Run:
    """A forerunner, a peak of two to three times the level three records later, a fall over 30; then as before."""
    s = series(rng, gentle(rng, 1500), some_noise(rng, 0.002, 0.01))
    at = _place(rng, 1500)
    rise = [rng.uniform(0.1, 0.2), 0.02, rng.uniform(0.03, 0.08)]
    fall = rng.uniform(1.0, 1.8) * rng.uniform(0.78, 0.82) ** np.arange(28)
    event = spike(s, at, [*rise, *(float(x) for x in fall)])
    lead = int(rng.integers(1, 4))
    s.grad_norm[at - lead : at + 31] *= np.concatenate([np.geomspace(4, 1000, lead + 4), np.geomspace(800, 1.1, 27)])
    return labelled(s, isolated(s, at, event, lead))


def isolated_with_dips(rng: Generator) -> Run:
    """One excursion that touches the old level on its way: still one."""
    noise = some_noise(rng, 0.002, 0.015)
    s = series(rng, gentle(rng, 1500), noise)
    at = _place(rng, 1500)
    high = max(0.2, edge(noise)) * rng.uniform(1.0, 2.0)
    event = spike(s, at, [high, high * 0.9, 0.0, high * 1.1, 0.0, high * 0.8])
    return labelled(s, isolated(s, at, event))


def isolated_noise_30(rng: Generator) -> Run:
    """Small-batch noise of 30 % and a record at four to ten times the level."""
    s = series(rng, gentle(rng, 1500), 0.3)
    at = _place(rng, 1500)
    return labelled(s, isolated(s, at, spike(s, at, [rng.uniform(3, 9)], 8)))


def isolated_wandering(rng: Generator) -> Run:
    """Noise that remembers."""
    noise = some_noise(rng, 0.003, 0.02)
    s = series(rng, gentle(rng, 1500), noise, "ar1")
    at = _place(rng, 1500)
    return labelled(s, isolated(s, at, spike(s, at, _heights(rng, edge(noise), 0.8, 3))))


def isolated_negative(rng: Generator) -> Run:
    """A loss below zero, such as a negative log density; worse is still upward."""
    noise = some_noise(rng, 0.002, 0.02)
    s = series(rng, -gentle(rng, 1500)[::-1], noise)
    at = _place(rng, 1500)
    return labelled(s, isolated(s, at, spike(s, at, _heights(rng, edge(noise), 0.8))))


def isolated_rounded(rng: Generator) -> Run:
    """A loss printed with two decimals; most neighbours are equal."""
    s = series(rng, gentle(rng, 1500, 0.001), 0.001)
    at = _place(rng, 1500)
    out = isolated(s, at, spike(s, at, _heights(rng, 0.1, 0.8)))
    s.loss = np.round(s.loss, 2)
    return labelled(s, out)


def isolated_constant(rng: Generator) -> Run:
    """A loss without any spread."""
    s = series(rng, np.full(1500, round(rng.uniform(0.5, 4), 4)), 0.0)
    at = _place(rng, 1500)
    return labelled(s, isolated(s, at, spike(s, at, _heights(rng, 0.1, 0.8))))


def isolated_short(rng: Generator) -> Run:
    """A spike at the 25th to 60th record of a log that begins in mid-run."""
    noise = some_noise(rng, 0.002, 0.015)
    s = series(rng, gentle(rng, 260), noise)
    if rng.random() < 0.5:
        s.launches.clear()
    at = int(rng.integers(24, 60))
    return labelled(s, isolated(s, at, spike(s, at, [edge(noise) * rng.uniform(1.0, 2.0)])))


def isolated_coarse(every: int) -> Callable[[Generator], Run]:
    """A log of every so many steps: one record high."""

    def make(rng: Generator) -> Run:
        noise = some_noise(rng, 0.002, 0.015)
        s = series(rng, gentle(rng, 400), noise, every=every)
        at = int(rng.integers(100, 300))
        return labelled(s, isolated(s, at, spike(s, at, [edge(noise) * rng.uniform(1.1, 3.0)])))

    return make


def change_cadence(s: Series, at: int, every: int) -> None:
    """From record `at` on the log has one record every so many steps."""
    s.steps[at:] = s.steps[at - 1] + every * np.arange(1, len(s) - at + 1)


def isolated_new_cadence(rng: Generator) -> Run:
    """The log becomes ten times coarser, and then a spike comes."""
    noise = some_noise(rng, 0.002, 0.015)
    s = series(rng, gentle(rng, 900), noise)
    change_cadence(s, 500, 10)
    at = int(rng.integers(520, 800))
    return labelled(s, isolated(s, at, spike(s, at, [edge(noise) * rng.uniform(1.1, 3.0)])))


def _repeated(s: Series, at: int, events: list[Event]) -> Expected:
    return Expected("repeated", int(s.steps[at - 1]), events[0].last, events[0].step, events[2].last + 5, tuple(events))


def repeated_wide(rng: Generator) -> Run:
    """Three to six excursions of at least 10 % within 2,000 steps, of one to three records each."""
    noise = some_noise(rng, 0.002, 0.012)
    s = series(rng, gentle(rng, 3000), noise)
    places = 300 + np.sort(rng.choice(18, int(rng.integers(3, 7)), replace=False)) * 100 + rng.integers(0, 40)
    events = [spike(s, int(at), _heights(rng, 0.12, 1.0, 3), rng.uniform(1, 10)) for at in places]
    return labelled(s, _repeated(s, int(places[0]), events))


def repeated_burst(rng: Generator) -> Run:
    """Three of 9 % within 200 steps."""
    s = series(rng, gentle(rng, 1500), some_noise(rng, 0.002, 0.007))
    at = _place(rng, 1400)
    places = (at, at + int(rng.integers(40, 80)), at + int(rng.integers(110, 180)))
    events = [spike(s, place, [rng.uniform(0.09, 0.098)]) for place in places]
    return labelled(s, _repeated(s, at, events))


def repeated_periodic(rng: Generator) -> Run:
    """One high record at the same place of every epoch, from the same shard."""
    s = series(rng, gentle(rng, 2600), some_noise(rng, 0.002, 0.012))
    period = int(rng.choice([150, 250, 400]))
    at = int(rng.integers(300, 500))
    for k, extra in enumerate(s.extra):
        extra["shards"] = [f"web-{(k - at) % period // 10:05d}"]
    events = [spike(s, place, [rng.uniform(0.2, 0.6)], 3) for place in range(at, 2500, period)]
    return labelled(s, _repeated(s, at, events))


KINDS = {
    make.__name__: Kind(make, 1)
    for make in (
        isolated_edge, isolated_medium, isolated_huge, isolated_grad_leads, isolated_slow_fall, isolated_with_dips,
        isolated_noise_30, isolated_wandering, isolated_negative, isolated_rounded, isolated_constant,
        isolated_short, isolated_new_cadence, repeated_wide, repeated_burst, repeated_periodic,
    )
} | {f"isolated_every_{every}": Kind(isolated_coarse(every), 1) for every in (5, 10, 100, 500)}  # fmt: skip
