"""Single files: safetensors headers, torch's zips, digests, and pickles that nobody runs."""

import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import fsspec
import pytest
import torch
from checkpoint_folders import safetensors_bytes, torch_bytes

from orchestrator.checkpoints import _digest
from orchestrator.checkpoints._contents import safetensors_wrong, top_pickle, torch_wrong
from orchestrator.checkpoints._digest import write_digests, wrong_digest
from orchestrator.checkpoints._pickled import Top, metadata, tops
from orchestrator.checkpoints._tree import held
from orchestrator.errors import ConfigError

FS = fsspec.filesystem("file")


def put(path: Path, data: bytes) -> tuple[str, int]:
    path.write_bytes(data)
    return str(path), len(data)


def header(spans: dict[str, list[int]], more: int = 0) -> bytes:
    text = json.dumps({name: {"dtype": "U8", "shape": [1], "data_offsets": span} for name, span in spans.items()})
    return struct.pack("<Q", len(text)) + text.encode() + bytes(more)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (safetensors_bytes({"a": 100, "b": 300}), ""),
        (safetensors_bytes({}), ""),
        (b"1234", "holds 4 bytes, not even the length of its header"),
        (struct.pack("<Q", 1 << 40) + b"{}", "says its header has 1099511627776 bytes, of a file of 10"),
        (struct.pack("<Q", 4) + b"{{{{", "has a header that does not parse"),
        (struct.pack("<Q", 2) + b"[]", "has a header that does not parse"),
        (struct.pack("<Q", 8) + b'{"a": 1}', "has a header that does not parse"),
        (header({"a": [0, 4096]}, 1000), "holds 1071 of 4167 bytes"),
        (header({"a": [0, 8]}, 9), "holds "),
        (header({"a": [0, 8], "b": [9, 10]}, 10), "has tensors that overlap or leave a gap"),
        (header({"a": [0, 8], "b": [4, 12]}, 12), "has tensors that overlap or leave a gap"),
    ],
)
def test_a_safetensors_file_is_judged_by_its_header(tmp_path, data, why):
    said = safetensors_wrong(FS, *put(tmp_path / "m.safetensors", data))
    assert said.startswith(why)
    assert bool(said) == bool(why)


TORCH = torch_bytes({"w": torch.arange(1000.0)})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (TORCH, ""),
        (b"", "is empty"),
        (b"hello", "is no file of torch.save"),
        (TORCH[:-1], "is cut off: its zip has no whole end record and directory"),
        (TORCH[: len(TORCH) // 2], "is cut off: its zip has no whole end record and directory"),
        (TORCH[:4] + TORCH[-300:], "is cut off: "),
    ],
)
def test_a_torch_file_is_judged_by_the_end_of_its_zip(tmp_path, data, why):
    said = torch_wrong(FS, *put(tmp_path / "m.pt", data))
    assert said.startswith(why)
    assert bool(said) == bool(why)


def test_any_zip_is_not_enough(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("readme", "x")
    assert torch_wrong(FS, str(tmp_path / "m.pt"), 100) == "is a zip, but not of torch.save"


def test_a_flipped_bit_fails_the_checksum_of_the_zip_when_all_is_read(tmp_path):
    data = bytearray(TORCH)
    data[len(data) // 2] ^= 4
    path, size = put(tmp_path / "m.pt", bytes(data))
    assert torch_wrong(FS, path, size) == ""
    assert torch_wrong(FS, path, size, checksums=True).startswith("fails its checksum at ")


def test_torch_files_without_checksums_or_of_the_old_format_are_not_accused(tmp_path):
    torch.save({"iter_num": 7}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"iter_num": 7}, tmp_path / "bare.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    for name in ("old.pt", "bare.pt"):
        assert torch_wrong(FS, str(tmp_path / name), (tmp_path / name).stat().st_size, checksums=True) == ""
    assert tops([top_pickle(FS, str(tmp_path / "bare.pt"))]) == [Top({"iter_num": 7}, frozenset({"iter_num"}))]


class Touch:
    """Pickled, it is a call that creates a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


def test_the_top_of_a_dict_is_read_past_whatever_its_values_would_do(tmp_path):
    sign = tmp_path / "ran"
    torch.save({"global_step": 40, "args": Touch(sign), "flag": True, 3: 4}, tmp_path / "m.pt")
    (top,) = tops([top_pickle(FS, str(tmp_path / "m.pt"))])
    assert top == Top({"global_step": 40}, frozenset({"global_step", "args", "flag"}))
    assert not sign.exists()


def bomb() -> bytes:
    """A key that is small to pickle and has 2^200 characters when written out."""
    key: tuple[object, ...] = ()
    for _ in range(200):
        key = (key, key)
    return pickle.dumps([key])


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\x80\x04.",
        bomb(),
        pickle.dumps(10**5000),
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"\x80\x02ctorch\nSize\nq\x00}q\x01b.",
        b"\x80\x02X\xff\xff\xff\x7f",
    ],
)
def test_no_pickle_upsets_the_reader_or_its_neighbours(hostile):
    good = pickle.dumps({"step": 1})
    told = tops([good, hostile, good])
    assert told[0] == told[2] == Top({"step": 1}, frozenset({"step"}))
    (wrong,) = metadata([hostile])
    assert isinstance(wrong, str)


def test_a_pickle_that_kills_its_reader_costs_only_itself(monkeypatch):
    runs = iter([([b'{"keys": [], "numbers": {}}'], "it died"), ([], "it died again"), ([b'{"wrong": "x"}'], "")])
    monkeypatch.setattr("orchestrator.checkpoints._pickled._run", lambda what, blobs: next(runs))
    assert tops([b"1", b"2", b"3", b"4"]) == [
        Top({}, frozenset()),
        "its pickle cannot be read: it died",
        "its pickle cannot be read: it died again",
        "x",
    ]


@pytest.mark.parametrize("algorithm", ["blake2b", "sha256", "xxh3_128"])
def test_digests_tell_missing_short_and_changed_files(tmp_path, algorithm):
    if algorithm == "xxh3_128":
        pytest.importorskip("xxhash", reason="the xxhash package is not installed")
    folder = tmp_path / "step-1"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(b"abc" * 2_000_000)
    (folder / "deep" / "b").write_bytes(b"")
    assert wrong_digest(FS, held(FS, str(folder))) is None
    assert write_digests(FS, str(folder), algorithm) == ""
    assert wrong_digest(FS, held(FS, str(folder))) == ""
    assert write_digests(FS, str(folder), algorithm) == "", "its own file is no part of it"

    (folder / "later").write_text("a file that came after the save is nobody's business")
    assert wrong_digest(FS, held(FS, str(folder))) == ""
    (folder / "deep" / "b").write_bytes(b"x")
    assert wrong_digest(FS, held(FS, str(folder))) == "deep/b holds 1 of 0 bytes"
    (folder / "deep" / "b").unlink()
    assert wrong_digest(FS, held(FS, str(folder))) == "deep/b is missing"
    (folder / "a").write_bytes(b"abd" * 2_000_000)
    assert wrong_digest(FS, held(FS, str(folder))) == "a is not what was saved: its digest differs"
    (folder / _digest.DIGESTS).write_text('{"files": ')
    assert wrong_digest(FS, held(FS, str(folder))) == ".orchestrate.digests.json is not whole"


def test_an_algorithm_that_is_not_at_hand_is_no_verdict_about_the_files(tmp_path, monkeypatch):
    (tmp_path / "a.pt").write_bytes(TORCH)

    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(_digest.importlib, "import_module", absent)
    with pytest.raises(ConfigError, match="xxhash is not installed"):
        write_digests(FS, str(tmp_path / "a.pt"), "xxh3_128")
    with pytest.raises(ConfigError, match="no digest algorithm 'md5'"):
        write_digests(FS, str(tmp_path / "a.pt"), "md5")
    assert write_digests(FS, str(tmp_path / "gone.pt"), "sha256") == "it is gone"
