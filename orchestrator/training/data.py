"""The quarantine for data sets: what the supervisor wants left out, by the names the trainer reports as shards.

Every helper is a plain function of names, so that it fits whatever reads them. Outside a supervised run, or without
a quarantine, all of them return what they were given.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from orchestrator import wire

Item = TypeVar("Item")


def quarantined() -> frozenset[str]:
    """The shards to leave out in this attempt."""
    path = os.environ.get(wire.QUARANTINE)
    if not path or not os.path.exists(path):
        return frozenset()
    return frozenset(wire.quarantine_shards(Path(path).read_text(encoding="utf-8")))


def kept(shards: Iterable[Item], name: Callable[[Item], str] = str) -> list[Item]:
    """A list of files, URLs or anything with a `name`, without those in quarantine.

    The order stays, so that a resumed job that skips by position meets what it would have met.
    WebDataset takes it as `WebDataset(kept(expand_urls("{000..099}.tar")))`.
    """
    left_out = quarantined()
    return [shard for shard in shards if name(shard) not in left_out] if left_out else list(shards)


def kept_files(data_files: Any) -> Any:
    """`data_files` of Hugging Face `load_dataset`: a path, a list, or a mapping of splits to either.

    Raises ValueError where nothing would be left of a split: loading would fall back to the whole folder.
    """
    if isinstance(data_files, Mapping):
        return {split: kept_files(files) for split, files in data_files.items()}
    if isinstance(data_files, (str, os.PathLike)):
        return kept_files([data_files])[0]
    left = kept(data_files, os.fspath)
    if not left:
        raise ValueError("every file of this split is in quarantine")
    return left


def kept_rows(shard_of: Sequence[str]) -> list[int]:
    """The indices of the rows that may be read, given each row's shard: for `torch.utils.data.Subset`,
    `datasets.Dataset.select` and samplers."""
    left_out = quarantined()
    return [row for row, shard in enumerate(shard_of) if shard not in left_out]


def kept_view(sizes: Mapping[str, int]) -> list[int]:
    """Row indices for data sets that are one index over their shards (MosaicML Streaming, litdata).

    `sizes` maps each shard to its number of rows, in the index's order; the view leaves out whole shards.
    """
    left_out = quarantined()
    rows: list[int] = []
    begin = 0
    for shard, size in sizes.items():
        if shard not in left_out:
            rows.extend(range(begin, begin + size))
        begin += size
    return rows


class Kept:
    """An iterable data set whose samples know their shard, without those in quarantine.

    Wraps a torch `IterableDataset`; state (`state_dict`, `load_state_dict`) is the wrapped one's, as
    `StatefulDataLoader` wants it.
    """

    def __init__(self, samples: Iterable[Item], shard_of: Callable[[Item], str]) -> None:
        self.samples, self._shard_of = samples, shard_of

    def __iter__(self) -> Iterator[Any]:
        left_out = quarantined()
        return (sample for sample in self.samples if self._shard_of(sample) not in left_out)

    def __getattr__(self, name: str) -> Any:
        if name == "samples":
            raise AttributeError(name)
        return getattr(self.samples, name)
