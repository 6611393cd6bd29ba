"""A RECORDING: a run directory, a journal, wire JSONL, CSV, a TensorBoard folder, or a log of a named format.

It may lie on this host or at any URL that fsspec reaches.
"""

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from orchestrator import registry
from orchestrator.config import RunDir
from orchestrator.core.facts import Fact
from orchestrator.errors import ConfigError, OrchestrateError, PluginError, RunDirError
from orchestrator.store import journal
from orchestrator.store.fetched import elsewhere, fetched
from orchestrator.telemetry import Parser
from orchestrator.telemetry._text import Lines, fed

JOURNAL = "journal"
_WANTED = ("journal.jsonl", "*tfevents*")  # of a folder that lies elsewhere
_WORD = b'"checkpoint"'
_CHUNK = 1 << 20
_BATCH = 4096


class Recording:
    """What a run left behind, as facts in their order; `skipped` counts the lines that could not be read."""

    def __init__(self, path: str, format: str | None = None) -> None:
        self.path = path
        self.skipped = 0
        self.header: dict[str, Any] = {}
        self._file, self.format = _found(self._here(path), path, format)
        if self.format == JOURNAL:
            self.header = _said(path, lambda: journal.header_of(self._file))

    def _here(self, path: str) -> Path:
        """Where it lies on this host; a copy of what lies elsewhere goes when the recording does."""
        if not elsewhere(path):
            return Path(path)
        folder = tempfile.mkdtemp(prefix="orchestrate-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return fetched(path, _WANTED, Path(folder))

    def batches(self) -> Iterator[Sequence[Fact]]:
        """Every fact, a handful at a time; ConfigError where the recording cannot be read."""
        try:
            yield from self._batches()
        except (OSError, RunDirError) as error:
            raise ConfigError(f"{self.path}: cannot be read: {error}") from error

    def facts(self) -> Iterator[Fact]:
        """Every fact, one by one."""
        return (fact for batch in self.batches() for fact in batch)

    def _batches(self) -> Iterator[Sequence[Fact]]:
        if self.format == JOURNAL:
            facts: Iterator[Fact] = (record.fact for record in journal.stream(self._file))
        else:
            source = registry.load("telemetry", self.format)
            if hasattr(source, "parser"):
                yield from self._parsed(source.parser(1))
                return
            facts = source.read(self._file)
        while batch := tuple(islice(facts, _BATCH)):
            yield batch

    def _parsed(self, parser: Parser) -> Iterator[Sequence[Fact]]:
        lines = Lines()
        with open(self._file, "rb") as file:
            while chunk := file.read(_CHUNK):
                yield fed(parser, lines.feed(chunk))
        yield fed(parser, lines.close())
        yield parser.close()
        self.skipped = parser.skipped + lines.dropped

    @property
    def tells_checkpoints(self) -> bool:
        """Whether its text speaks of saved checkpoints, by a quick look through it."""
        if not self._file.is_file():
            return False
        rest = b""
        with open(self._file, "rb") as file:
            while chunk := file.read(_CHUNK):
                text = rest + chunk
                if _says_checkpoint(text):
                    return True
                rest = text[-64:]
        return False


def _says_checkpoint(text: bytes) -> bool:
    """`"checkpoint"` as the value of a message's type or of a fact's tag, not as a key."""
    at = text.find(_WORD)
    while at >= 0:
        before = text[max(at - 16, 0) : at].rstrip()
        if before.endswith(b":") and before[:-1].rstrip().endswith((b'"type"', b'"fact"')):
            return True
        at = text.find(_WORD, at + 1)
    return False


def _said(path: str, read: Any) -> Any:
    try:
        return read()
    except OrchestrateError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _found(path: Path, name: str, format: str | None) -> tuple[Path, str]:
    """The file (or folder) to read and its format; ConfigError says what is missing."""
    if not path.exists():
        raise ConfigError(f"{name}: there is no such recording")
    if path.is_dir() and RunDir(path).journal.is_file():
        path = RunDir(path).journal
    if format is not None:
        return path, _known(format)
    if path.is_dir():
        if next(path.rglob("*tfevents*"), None) is None:
            raise ConfigError(f"{name}: neither a run directory (no journal) nor a folder of TensorBoard event files")
        return path, "tensorboard"
    return path, _sniffed(path, name)


def _known(name: str) -> str:
    if name == JOURNAL:
        return name
    known = registry.names("telemetry")
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise PluginError(f"--format {name}: there is no such format; {hint}known are {', '.join(known)}")
    return name


def _sniffed(path: Path, name: str) -> str:
    """The format of a file by its name and its first line."""
    if "tfevents" in path.name:
        return "tensorboard"
    with open(path, "rb") as file:
        head = file.read(_CHUNK).lstrip(b"\xef\xbb\xbf")
    for line in head.splitlines()[:20]:
        if line.strip():
            if (found := _of_line(line, path.suffix)) is not None:
                return found
            break
    if path.suffix in (".csv", ".tsv"):
        return "csv"
    known = ", ".join(registry.names("telemetry"))
    raise ConfigError(f"{name}: its format cannot be told; add --format NAME, one of {known}")


def _of_line(line: bytes, suffix: str) -> str | None:
    """The format that a first line speaks: JSON of ours, JSON of somebody's, or a header of columns."""
    try:
        said = json.loads(line)
    except ValueError:
        words = [word.strip(' "').lower() for word in line.decode("utf-8", "replace").replace(";", ",").split(",")]
        columns = len(words) > 1 and any("loss" in word for word in words) and not line.lstrip().startswith(b"{")
        return "csv" if columns else None
    if not isinstance(said, dict):
        return None
    if said.get("fact") == "header":
        return JOURNAL
    if isinstance(said.get("type"), str):
        return "wire"
    return "jsonl" if "jsonl" in registry.names("telemetry") else None
