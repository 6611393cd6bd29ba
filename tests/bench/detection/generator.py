"""Labelled training runs, by kind and seed; the same name and seed give the same run.

Seeds 0 to 99 are for tuning; a number that is published comes from 1000 on.
"""

import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import healthy
import levels
import numerics
import numpy as np
import ranks
import spikes
from labels import Kind, Run
from series import gentle, labelled, series

from orchestrator import wire

KINDS: dict[str, Kind] = spikes.KINDS | levels.KINDS | numerics.KINDS | ranks.KINDS | healthy.KINDS


def generate(name: str, seed: int) -> Run:
    """One run of a kind; its random stream depends on the name and the seed alone."""
    kind = KINDS[name]
    run = kind.make(np.random.default_rng([seed, zlib.crc32(name.encode())]))
    run.name, run.seed, run.line = name, seed, kind.line
    return run


def suite(seeds: Iterable[int], names: Iterable[str] = KINDS) -> Iterator[Run]:
    """Every kind with every seed."""
    for seed, name in itertools.product(seeds, tuple(names)):
        yield generate(name, seed)


def long_run(records: int, seed: int = 0) -> Run:
    """One healthy run to measure speed with."""
    rng = np.random.default_rng(seed)
    return labelled(series(rng, gentle(rng, records), 0.01))


def write(run: Run, path: Path) -> None:
    """The run as wire JSONL."""
    path.write_text("".join(f"{wire.encode(message)}\n" for message in run.messages), encoding="utf-8")
