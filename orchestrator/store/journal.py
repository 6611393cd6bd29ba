"""The journal: append-only JSON lines with checksums; the run's memory and its recording.

    {"n":1,"fact":"header","at":null,"body":{...},"crc":"1a2b3c4d"}

The first line is the header with the policy's text. `at` says up to where a telemetry file had been read
when the fact was taken from it, so a recovered supervisor reads on from there. A torn last line is a
crash in mid-write and is cut off; anything else that does not check is damage.
"""

import json
import os
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import TracebackType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from orchestrator.core.facts import FACTS, Decision, Fact, Outcome
from orchestrator.errors import RunDirError

VERSION = 1
_TAGS = {fact.__name__.lower(): fact for fact in FACTS}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_REQUIRED = object()


class At(NamedTuple):
    """A place in a telemetry file: its name within the attempt's folder and the byte after the record."""

    file: str
    offset: int


OURS = At("", 0)  # of a fact that telemetry could have told, but did not


class Record(NamedTuple):
    """One journaled fact and where it was read from."""

    fact: Fact
    at: At | None = None


# --- facts as JSON -----------------------------------------------------------------------------------


@cache
def _converters(cls: type) -> dict[str, Any]:
    """For every field that JSON does not give back as it was: how to make it again."""
    found = {name: _converter(hint) for name, hint in get_type_hints(cls).items()}
    return {name: convert for name, convert in found.items() if convert is not None}


def _converter(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        inner = [c for c in map(_converter, get_args(hint)) if c is not None]
        return (lambda value: None if value is None else inner[0](value)) if inner else None
    if get_origin(hint) is tuple:
        args = get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            item = _converter(args[0])
            return tuple if item is None else lambda values: tuple(item(value) for value in values)
        return tuple
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return lambda value: _make(hint, value)
    return float if hint is float else None


def _make(cls: Any, fields: dict[str, Any]) -> Any:
    for name, convert in _converters(cls).items():
        if name in fields:
            fields[name] = convert(fields[name])
    return cls(**fields)


def to_json(value: Any) -> Any:
    """A fact's fields as plain JSON values; what equals its default is left out."""
    if not isinstance(value, tuple):
        return value
    if hasattr(value, "_fields"):
        told = zip(value._fields, value, _defaults(type(value)), strict=True)
        return {name: to_json(item) for name, item, default in told if item is not default and item != default}
    return [to_json(item) for item in value]


@cache
def _defaults(cls: Any) -> tuple[Any, ...]:
    """The default of each field; something that nothing equals where there is none."""
    return tuple(cls._field_defaults.get(name, _REQUIRED) for name in cls._fields)


def from_json(tag: str, body: dict[str, Any]) -> Fact:
    """The inverse of `to_json` under the fact's tag."""
    made: Fact = _make(_TAGS[tag], body)  # the body is used up
    return made


# --- the file ----------------------------------------------------------------------------------------


def line_of(number: int, tag: str, body: Any, at: At | None = None) -> bytes:
    """One journal line with its checksum."""
    text = _encode({"n": number, "fact": tag, "at": list(at) if at else None, "body": body})
    return text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text)


def _checked(line: bytes) -> dict[str, Any] | None:
    """The content of a whole line; None when it does not check."""
    text, found, crc = line.rpartition(b',"crc":"')
    if not found or len(crc) != 11 or crc[-3:] != b'"}\n':
        return None
    text += b"}"
    try:
        return _decode(text) if int(crc[:8], 16) == zlib.crc32(text) else None
    except (ValueError, msgspec.DecodeError):
        return None


class Mark(NamedTuple):
    """A place in a journal: the lines before it, their bytes and their checksum."""

    number: int
    size: int
    crc: int


START = Mark(0, 0, 0)


class Contents(NamedTuple):
    """A journal: its header, its records from a mark on, and the mark where what is sound of it ends."""

    header: dict[str, Any]
    records: list[Record]
    begin: Mark
    end: Mark


def read(path: Path, mark: Mark = START) -> Contents:
    """Everything after a mark up to a torn end, all of it where the mark does not fit; RunDirError on damage."""
    header = header_of(path)
    begin = mark if mark.size and mark.crc == _crc(path, mark.size) else START
    records: list[Record] = []
    number, size, crc = begin
    for content, line in _lines(path, begin):
        if number:
            records.append(_record(content))
        number, size, crc = number + 1, size + len(line), zlib.crc32(line, crc)
    return Contents(header, records, begin, Mark(number, size, crc))


def _crc(path: Path, size: int) -> int | None:
    """The checksum of the first so many bytes; None where there are fewer."""
    crc, left = 0, size
    with open(path, "rb") as file:
        while left and (data := file.read(min(left, 1 << 20))):
            crc, left = zlib.crc32(data, crc), left - len(data)
    return None if left else crc


def _record(content: dict[str, Any]) -> Record:
    at = content["at"]
    return Record(from_json(content["fact"], content["body"]), At(*at) if at else None)


def stream(path: Path) -> Iterator[Record]:
    """The records one by one, for recordings too large to hold."""
    lines = _lines(path)
    next(lines, None)
    for content, _ in lines:
        yield _record(content)


def header_of(path: Path) -> dict[str, Any]:
    """The header alone; {} for an empty journal."""
    first = next(_lines(path), None)
    return first[0]["body"] if first else {}


def _lines(path: Path, begin: Mark = START) -> Iterator[tuple[dict[str, Any], bytes]]:
    try:
        with open(path, "rb") as file:
            file.seek(begin.size)
            pending: tuple[int, bytes] | None = None
            for number, line in enumerate(file, begin.number):
                if pending is not None:
                    raise RunDirError(f"{path}:{pending[0] + 1}: the journal is damaged here; nothing was changed")
                content = _checked(line)
                if content is None or content["n"] != number:
                    pending = (number, line)
                    continue
                yield content, line
    except OSError as error:
        raise RunDirError(f"{path}: the journal cannot be read: {error.strerror}") from error
    if pending is not None and pending[1].endswith(b"\n"):
        raise RunDirError(f"{path}:{pending[0] + 1}: the journal is damaged here; nothing was changed")


class Tail:
    """The records of a journal as another process appends them."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._number = path, 0, 0

    def news(self) -> Iterator[Record]:
        """Every record that is whole by now; RunDirError where one is damaged."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                lines = list(file)
        except OSError as error:
            raise RunDirError(f"{self._path}: the journal cannot be read: {error.strerror}") from error
        for line in lines:
            if not line.endswith(b"\n"):
                return
            content = _checked(line)
            if content is None or content["n"] != self._number:
                raise RunDirError(f"{self._path}:{self._number + 1}: the journal is damaged here")
            self._number, self._offset = self._number + 1, self._offset + len(line)
            if content["fact"] != "header":
                yield _record(content)


class Journal:
    """The one writer's handle. Steps are appended as they come; a decision is on disk before `append` returns."""

    def __init__(self, path: Path, header: dict[str, Any], mark: Mark = START) -> None:
        """Open for appending: a new one with this header, or an old one after its last sound line.

        `recovered` holds the records after `mark`, or all of them where it does not fit; `begin` says which.
        """
        self.path = path
        self.recovered: list[Record] = []
        self.header = header
        self.begin = self.end = START
        new = not path.exists() or path.stat().st_size == 0
        if not new:
            contents = read(path, mark)
            new = not contents.header
            self.recovered, self.header = contents.records, contents.header or header
            self.begin, self.end = contents.begin, contents.end
            if self.end.size != path.stat().st_size:
                os.truncate(path, self.end.size)
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise RunDirError(f"{path}: the journal cannot be written: {error.strerror}") from error
        if new:
            self._write("header", header, None)
            self.sync()

    def append(self, record: Record) -> None:
        """Write one fact; decisions and outcomes are synced, with all before them."""
        fact = record.fact
        self._write(type(fact).__name__.lower(), to_json(fact), record.at)
        if isinstance(fact, Decision | Outcome):
            self.sync()

    def _write(self, tag: str, body: Any, at: At | None) -> None:
        line = line_of(self.end.number, tag, body, at)
        written = 0
        while written < len(line):
            written += self._file.write(line[written:])
        self.end = Mark(self.end.number + 1, self.end.size + len(line), zlib.crc32(line, self.end.crc))

    def sync(self) -> None:
        """To the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Synced and closed."""
        self.sync()
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def header(policy_file: str, policy_text: str, digest: str, **more: Any) -> dict[str, Any]:
    """The header of a run: what was promised, and by which version."""
    return {"journal": VERSION, "policy_file": policy_file, "policy": policy_text, "digest": digest, **more}


def dumps(value: Any) -> str:
    """Facts as text for people: one JSON object."""
    return json.dumps(to_json(value), ensure_ascii=False)
