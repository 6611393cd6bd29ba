"""The quarantine reaches every kind of data set."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import IterableDataset

from orchestrator import wire
from orchestrator.training.data import Kept, kept, kept_files, kept_rows, kept_view, quarantined


@pytest.fixture
def _left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "quarantine.txt"
    path.write_text(wire.quarantine_text(["b", "odd name/100%"]))
    monkeypatch.setenv(wire.QUARANTINE, str(path))


def test_without_a_supervisor_everything_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(wire.QUARANTINE, raising=False)
    assert quarantined() == frozenset()
    assert kept(["a", "b"]) == ["a", "b"]
    assert kept_files({"train": ["a", "b"]}) == {"train": ["a", "b"]}
    assert kept_view({"a": 2, "b": 1}) == [0, 1, 2]


@pytest.mark.usefixtures("_left_out")
def test_lists_keep_their_order() -> None:
    assert kept(["c", "b", "a", "odd name/100%"]) == ["c", "a"]
    assert kept([("b", 1), ("a", 2)], name=lambda pair: pair[0]) == [("a", 2)]


@pytest.mark.usefixtures("_left_out")
def test_data_files_by_split() -> None:
    assert kept_files({"train": ["a", "b"], "test": "c"}) == {"train": ["a"], "test": "c"}
    with pytest.raises(ValueError, match="quarantine"):
        kept_files({"train": ["b"]})


@pytest.mark.usefixtures("_left_out")
def test_rows_and_views() -> None:
    assert kept_rows(["a", "b", "a"]) == [0, 2]
    assert kept_view({"a": 2, "b": 3, "c": 1}) == [0, 1, 5]


class Samples(IterableDataset[dict[str, Any]]):
    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, shard in enumerate("abca"):
            if number >= self.place:
                yield {"shard": shard, "number": number}

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


@pytest.mark.usefixtures("_left_out")
def test_iterable_data_sets_keep_their_own_state() -> None:
    data = Kept(Samples(), lambda sample: str(sample["shard"]))
    assert [sample["number"] for sample in data] == [0, 2, 3]
    data.load_state_dict({"place": 2})
    assert data.state_dict() == {"place": 2}
    assert [sample["number"] for sample in data] == [2, 3]
