"""Whether single files are whole: safetensors headers, torch's zip files, digests. Nothing is loaded."""

import json
import re
import struct
import zipfile
from collections.abc import Iterable
from typing import IO, Any

from fsspec import AbstractFileSystem

from orchestrator.checkpoints._digest import wrong_digest
from orchestrator.checkpoints._tree import Entry, Files

_TORCH = re.compile(r"\.(pt|pth|bin|ckpt)$")
_WHOLE = re.compile(r"\.(pt|pth|bin|ckpt|safetensors|json)$")
# torch.save before its zip format: a pickled magic number. Its length is written nowhere.
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_LONGEST_HEADER = 100_000_000
_BLOCK = 1 << 16


def empty_one(files: Files) -> str:
    """The first file without a byte among those that always have some; "" when there is none."""
    return next((f"{name} is empty" for name in sorted(files) if not files[name] and _WHOLE.search(name)), "")


def wrong_inside(fs: AbstractFileSystem, entry: Entry, full: bool = False) -> str:
    """The first file that is not whole, by its own headers; with `full` also by the digests written after the save.

    Without digests `full` reads what carries a checksum of its own, the zip members.
    """
    digest = wrong_digest(fs, entry) if full else None
    if digest:
        return digest
    checksums = full and digest is None
    for name, size in sorted(entry.files.items()):
        why = ""
        if name.endswith(".safetensors"):
            why = safetensors_wrong(fs, entry.at(name), size)
        elif _TORCH.search(name):
            why = torch_wrong(fs, entry.at(name), size, checksums)
        if why:
            return f"{name} {why}"
    return ""


def safetensors_wrong(fs: AbstractFileSystem, path: str, size: int) -> str:
    """What is wrong with a safetensors file: 8 bytes of length, a JSON header, tensors without a gap, and the end.

    Format: https://github.com/huggingface/safetensors#format
    """
    if size < 8:
        return f"holds {size} bytes, not even the length of its header"
    (length,) = struct.unpack("<Q", fs.cat_file(path, start=0, end=8))
    if length > min(size - 8, _LONGEST_HEADER):
        return f"says its header has {length} bytes, of a file of {size}"
    try:
        header: Any = json.loads(fs.cat_file(path, start=8, end=8 + length))
        spans = sorted(tuple(each["data_offsets"]) for name, each in header.items() if name != "__metadata__")
        end = _end(spans)
    except (ValueError, TypeError, KeyError, AttributeError):
        return "has a header that does not parse"
    if end is None:
        return "has tensors that overlap or leave a gap"
    return "" if 8 + length + end == size else f"holds {size} of {8 + length + end} bytes"


def _end(spans: Iterable[tuple[int, int]]) -> int | None:
    end = 0
    for start, stop in spans:
        if start != end or stop < start:
            return None
        end = stop
    return end


def torch_wrong(fs: AbstractFileSystem, path: str, size: int, checksums: bool = False) -> str:
    """What is wrong with a file of torch.save: its zip end record and central directory, with `checksums` all of it."""
    if not size:
        return "is empty"
    head = fs.cat_file(path, start=0, end=min(size, len(_LEGACY)))
    if head == _LEGACY:
        return ""
    if not head.startswith(b"PK"):
        return "is no file of torch.save"
    try:
        with fs.open(path, "rb", block_size=_BLOCK) as file, zipfile.ZipFile(file) as archive:
            return _members_wrong(archive, checksums)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        return "is cut off: its zip has no whole end record and directory"


def _members_wrong(archive: zipfile.ZipFile, checksums: bool) -> str:
    members = archive.infolist()
    if not any(member.filename.endswith("data.pkl") for member in members):
        return "is a zip, but not of torch.save"
    if any(member.header_offset + member.compress_size > archive.start_dir for member in members):
        return "is cut off: its zip directory names more than it holds"
    bad = next((each.filename for each in members if checksums and not _sound(archive, each)), None)
    return f"fails its checksum at {bad}" if bad else ""


def _sound(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    try:
        with _open(archive, member) as file:
            while file.read(1 << 20):
                pass
    except zipfile.BadZipFile:
        return False
    return True


def _open(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    # torch can be told to leave checksums out; it writes zeros then, which no reader should compare with.
    if not member.CRC:
        member.CRC = None  # type: ignore[assignment]
    return archive.open(member)


def top_pickle(fs: AbstractFileSystem, path: str) -> bytes:
    """The pickle inside a torch file, tensors not included; empty when there is none."""
    try:
        with fs.open(path, "rb", block_size=_BLOCK) as file, zipfile.ZipFile(file) as archive:
            member = next((each for each in archive.infolist() if each.filename.endswith("data.pkl")), None)
            # torch stores, never compresses: so no more is read than the file holds.
            stored = member is not None and member.compress_type == zipfile.ZIP_STORED
            return _open(archive, member).read() if member and stored else b""
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, FileNotFoundError):
        return b""
