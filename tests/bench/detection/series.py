"""Training runs as arrays: a clean curve, the noise on it, and the means to plant faults; then as messages.

Indices count records, not steps: a log may be coarse.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from labels import Event, Expected, Floats, Ints, Message, Run

Law = Literal["normal", "ar1", "student", "gamma"]
TOKENS = 524288


@dataclass
class Series:
    """One run, one element a record; `extra` holds further fields of a record, None removes one.

    `launches` maps a record to the start step of the run message that stands before it.
    """

    steps: Ints
    clean: Floats
    noise: float
    loss: Floats
    grad_norm: Floats
    lr: Floats
    extra: list[Message]
    launches: dict[int, int] = field(default_factory=dict)
    world: int = 8
    ranks: Floats | None = None
    evals: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.steps)

    def scale(self) -> Floats:
        """What a height of 1 is worth at each record."""
        return np.abs(self.clean)


def unit_noise(rng: np.random.Generator, count: int, law: Law, memory: float = 0.0) -> Floats:
    """Noise of mean 0 and variance 1.

    `student` has 4 degrees of freedom and ends at 12 deviations, `gamma` has the skew of a 30 % noise.
    """
    if law == "student":
        return np.asarray(np.clip(rng.standard_t(4, count) / np.sqrt(2.0), -12, 12))
    if law == "gamma":
        return np.asarray((rng.gamma(11.0, size=count) - 11.0) / np.sqrt(11.0))
    white = rng.standard_normal(count)
    if law == "normal":
        return white
    out = np.empty(count)
    last = white[0]
    fresh = np.sqrt(1 - memory**2)
    for k in range(count):
        last = memory * last + fresh * white[k]
        out[k] = last
    return out


def gentle(rng: np.random.Generator, count: int, most: float = 0.006) -> Floats:
    """A loss well into training: at the most `most` of its level lost over its first 200 records."""
    tau = rng.uniform(1500, 6000)
    share = rng.uniform(0, most) * tau / 200
    return np.asarray(rng.uniform(1.6, 4.0) * (1 + share * np.exp(-np.arange(count) / tau)))


def fresh_start(rng: np.random.Generator, count: int) -> Floats:
    """A loss from its first step on: a fast fall from about 11, then a slow one."""
    t = np.arange(count)
    fast, slow = rng.uniform(60, 200), rng.uniform(1200, 3000)
    return np.asarray(rng.uniform(1.8, 2.4) + 8.5 * np.exp(-t / fast) + rng.uniform(0.2, 0.6) * np.exp(-t / slow))


def series(
    rng: np.random.Generator, clean: Floats, noise: float, law: Law = "normal", every: int = 1, first: int | None = None
) -> Series:
    """A healthy run over a clean curve; it begins in mid-training unless `first` says otherwise."""
    count = len(clean)
    begin = int(rng.integers(2, 100)) * 500 if first is None else first - every
    steps = begin + every * np.arange(1, count + 1)
    unit = unit_noise(rng, count, law, float(rng.uniform(0.5, 0.9)) if law == "ar1" else 0.0)
    grad = rng.uniform(0.2, 0.8) * np.exp(0.1 * rng.standard_normal(count))
    lr = np.linspace(3e-4, 2.6e-4, count)
    extra: list[Message] = [{} for _ in range(count)]
    return Series(
        steps, clean, noise, clean + noise * np.abs(clean) * unit, grad, lr, extra, {0: int(steps[0]) - every}
    )


def spike(s: Series, at: int, heights: Sequence[float], grad: float = 1.0) -> Event:
    """Lift single records by shares of the clean loss; noise there only adds, so that heights are lower bounds."""
    for k, height in enumerate(heights):
        j = at + k
        s.loss[j] = s.clean[j] + s.scale()[j] * height + abs(s.loss[j] - s.clean[j])
    s.grad_norm[at : at + len(heights)] *= grad
    top = max(heights)
    return Event(int(s.steps[at]), int(s.steps[at + len(heights) - 1]), top, top / s.noise if s.noise else np.inf)


def lift(s: Series, at: int, height: Floats | float) -> Event:
    """Lift all records from `at` on by a share of the clean loss; the noise grows with the level."""
    part = slice(at, None)
    share = np.broadcast_to(np.asarray(height, dtype=float), len(s) - at)
    s.loss[part] = s.clean[part] + s.scale()[part] * share + (s.loss[part] - s.clean[part]) * (1 + share)
    top = float(share.max())
    return Event(int(s.steps[at]), int(s.steps[-1]), top, top / s.noise if s.noise else np.inf)


def cut(s: Series, end: int) -> Series:
    """The run up to record `end`, that one left out: the job stopped there."""
    ranks = None if s.ranks is None else s.ranks[:end]
    return replace(
        s,
        steps=s.steps[:end],
        clean=s.clean[:end],
        loss=s.loss[:end],
        grad_norm=s.grad_norm[:end],
        lr=s.lr[:end],
        extra=s.extra[:end],
        ranks=ranks,
    )


def isolated(s: Series, at: int, event: Event, lead: int = 0) -> Expected:
    """The incident of one spike; one record more than its lead is left to the onset."""
    return Expected("isolated", int(s.steps[at - lead - 1]), event.last, event.step, event.last, (event,))


def persistent(s: Series, at: int, event: Event, within: int, slack: int = 20) -> Expected:
    """The incident of a level that does not come back: onset within `slack` records of the fault."""
    lo, hi = s.steps[max(at - slack, 0)], s.steps[min(at + slack, len(s) - 1)]
    return Expected("persistent", int(lo), int(hi), event.step, event.step + within, (event,))


def _rank_block(losses: Floats) -> Message:
    """Every value for few ranks; median, MAD and outliers for many."""
    if len(losses) <= 64:
        return {"loss": [float(x) for x in losses]}
    median = float(np.nanmedian(losses))
    mad = float(np.nanmedian(np.abs(losses - median)))
    far = np.flatnonzero(~(np.abs(losses - median) <= 5 * 1.4826 * mad))
    odd = {str(int(k)): float(losses[k]) for k in far}
    return {"n": len(losses), "loss": {"median": median, "mad": mad, "odd": odd}}


def messages(s: Series) -> list[Message]:
    """The run as wire messages: a run message before each launch, one message a record, evaluations after theirs."""
    out: list[Message] = []
    attempt = 0
    for k, step in enumerate(s.steps):
        if k in s.launches:
            attempt += 1
            out.append(
                {"type": "run", "schema": 1, "attempt": attempt, "world_size": s.world, "start_step": s.launches[k]}
            )
        record: Message = {"type": "step", "step": int(step), "time": 1.7e9 + float(step), "loss": float(s.loss[k])}
        record |= {"grad_norm": float(s.grad_norm[k]), "lr": float(s.lr[k]), "tokens": TOKENS}
        if s.ranks is not None:
            record["ranks"] = _rank_block(s.ranks[k])
        record |= s.extra[k]
        out.append({name: value for name, value in record.items() if value is not None})
        if k in s.evals:
            out.append({"type": "eval", "step": int(step), "name": "val", "loss": s.evals[k], "time": 1.7e9 + step})
    return out


def labelled(s: Series, *expected: Expected, planned: Sequence[int] = ()) -> Run:
    """The series as a run with its labels."""
    return Run(
        messages=messages(s),
        clean=s.clean,
        noise=s.noise,
        expected=expected,
        planned=tuple(int(s.steps[k]) for k in planned),
    )
