"""Runs with values that are not finite, bare or masked, and with what they must not hide."""

from collections.abc import Callable
from typing import Any

import numpy as np
from labels import Event, Expected, Kind, Run
from numpy.random import Generator
from series import Series, cut, gentle, isolated, labelled, lift, persistent, series, spike
from spikes import edge, some_noise


def _nonfinite(s: Series, at: int, end: int, seen: int | None = None) -> Expected:
    """Records [at, end) are not finite; `seen` is the record that can first tell."""
    told = int(s.steps[at if seen is None else seen])
    event = Event(told, int(s.steps[end - 1]), np.inf, np.inf)
    return Expected("nonfinite", int(s.steps[at]), told, told, event.last, (event,))


def _base(rng: Generator, records: int = 1200) -> tuple[Series, int]:
    s = series(rng, gentle(rng, records), some_noise(rng, 0.002, 0.02))
    return s, int(rng.integers(300, records - 300))


def _one(**fields: Any) -> Callable[[Generator], Run]:
    """One record with these fields, healthy ones around it."""

    def make(rng: Generator) -> Run:
        s, at = _base(rng)
        s.extra[at] = dict(fields)
        return labelled(s, _nonfinite(s, at, at + 1))

    return make


def _last(**fields: Any) -> Callable[[Generator], Run]:
    """Every record from one on has these fields; the job is stopped 10 to 40 records later."""

    def make(rng: Generator) -> Run:
        s, at = _base(rng)
        end = at + int(rng.integers(10, 40))
        for extra in s.extra[at:end]:
            extra |= fields
        return labelled(cut(s, end), _nonfinite(s, at, end))

    return make


def loss_vanishes(rng: Generator) -> Run:
    """The loss is no longer logged while steps go on, and nothing else says so: the third such record tells."""
    s, at = _base(rng)
    end = at + int(rng.integers(10, 40))
    for extra in s.extra[at:end]:
        extra |= {"loss": None, "grad_norm": float(s.grad_norm[at])}
    return labelled(cut(s, end), _nonfinite(s, at, end, at + 2))


def explosion(rng: Generator) -> Run:
    """Three, two hundred, a million times the level, then infinite, then blank: one incident from the first on."""
    s, at = _base(rng)
    for k, factor in enumerate((3.0, 200.0, 1e6)):
        spike(s, at + k, [factor - 1], factor)
    s.extra[at + 3] = {"loss": float("inf"), "grad_norm": float("inf")}
    for extra in s.extra[at + 4 : at + 20]:
        extra |= {"loss": None, "grad_norm": None}
    wanted = _nonfinite(s, at + 3, at + 20)._replace(lo=int(s.steps[at - 1]))
    return labelled(cut(s, at + 20), wanted)


def jump_then_nan(rng: Generator) -> Run:
    """A jump that becomes NaN: one incident, of the worse class, with the jump's onset."""
    s, at = _base(rng)
    lift(s, at, edge(s.noise) * rng.uniform(2, 10))
    gone = at + int(rng.integers(20, 200))
    s.loss[gone : gone + 20] = s.grad_norm[gone : gone + 20] = np.nan
    wanted = _nonfinite(s, gone, gone + 20)._replace(lo=int(s.steps[at - 5]), hi=int(s.steps[at + 5]))
    return labelled(cut(s, gone + 20), wanted)


def nan_then_spike(rng: Generator) -> Run:
    """One NaN, and a spike 50 steps later: the first must not hide the second."""
    s, at = _base(rng)
    s.loss[at] = s.grad_norm[at] = np.nan
    event = spike(s, at + 50, [edge(s.noise) * rng.uniform(1.1, 4)], 5)
    return labelled(s, _nonfinite(s, at, at + 1), isolated(s, at + 50, event))


def outlier_then_level(rng: Generator) -> Run:
    """One 900 in a curve of 2, and 15 to 60 steps later 70 % more for good."""
    s = series(rng, np.full(600, 2.0), rng.uniform(0.002, 0.02))
    at = int(rng.integers(50, 200))
    first = isolated(s, at, spike(s, at, [449.0], rng.uniform(1, 100)))
    jump = at + int(rng.integers(15, 60))
    return labelled(s, first, persistent(s, jump, lift(s, jump, 0.7), 100, 10))


NAN, INF = float("nan"), float("inf")
KINDS = {
    "nan_once": Kind(_one(loss=NAN, grad_norm=NAN), 1),
    "nan_for_good": Kind(_last(loss=NAN, grad_norm=NAN), 1),
    "nan_as_word": Kind(_one(loss="nan", grad_norm="nan"), 1),
    "inf_once": Kind(_one(loss=INF), 1),
    "minus_inf_as_word": Kind(_one(loss="-inf"), 1),
    "nan_in_grad_norm": Kind(_one(grad_norm=NAN), 1),
    "zero_with_nan_norm": Kind(_last(loss=0.0, grad_norm=NAN), 1),
    "loss_vanishes_nan_norm": Kind(_last(loss=None, grad_norm=NAN), 1),
    "nan_then_spike": Kind(nan_then_spike, 4),
    "outlier_then_level": Kind(outlier_then_level, 4),
} | {make.__name__: Kind(make, 1) for make in (loss_vanishes, explosion, jump_then_nan)}
