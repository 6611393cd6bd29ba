"""From bytes as they arrive to lines, and from a line to the text that a trainer meant."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.core.facts import Fact
from orchestrator.telemetry import Parser

LIMIT = 64 * 1024
_CHUNK = 1024 * 1024


class Lines:
    """Cuts a growing text into lines at newlines and lone carriage returns; empty lines are left out.

    A line over 64 KiB is counted in `dropped` and never held in memory.

    >>> lines = Lines()
    >>> lines.feed(b"one\\r\\ntw"), lines.feed(b"o\\rthree"), lines.close()
    ([b'one'], [b'two'], [b'three'])
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._rest = bytearray()
        self._passing = False  # inside a line that is already too long

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete."""
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._hold(data)
            return []
        whole = bytes(self._rest + data[:end]).splitlines()
        if self._passing:
            del whole[0]
        self._passing = False
        self._rest.clear()
        self._hold(data[end:])
        return self._fitting(whole)

    def close(self) -> list[bytes]:
        """The last line where the text ends without a newline."""
        last = bytes(self._rest)
        self._rest.clear()
        self._passing = False
        return [last] if last else []

    def _hold(self, data: bytes) -> None:
        if self._passing:
            return
        self._rest += data
        if len(self._rest) > LIMIT:
            self.dropped += 1
            self._passing = True
            self._rest.clear()

    def _fitting(self, lines: list[bytes]) -> list[bytes]:
        fitting = [line for line in lines if 0 < len(line) <= LIMIT]
        self.dropped += sum(1 for line in lines if len(line) > LIMIT)
        return fitting


def fed(parser: Parser, lines: Sequence[bytes]) -> list[Fact]:
    """The facts of lines that are at hand together; a parser with an `ahead` may look at all of them first."""
    ahead = getattr(parser, "ahead", None)
    if ahead is not None:
        ahead(lines)
    feed = parser.feed
    return [fact for line in lines for fact in feed(line)]


def records(path: str | Path, parser: Parser) -> Iterator[Fact]:
    """Every fact of a whole file, in order; lines too long are added to the parser's `skipped`."""
    lines = Lines()
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            yield from fed(parser, lines.feed(data))
    yield from fed(parser, lines.close())
    parser.skipped += lines.dropped
    yield from parser.close()


_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LABEL = re.compile(r"\s*(?:\d+:\s+)?(?:\[(?:rank|default)\d+\]:\s*)*")
_INNER = re.compile(r"\[(?:rank|default)\d+\]:")


class Unclear(ValueError):
    """A line that cannot be read surely."""


def plain(line: bytes) -> tuple[str, str]:
    """The label of the rank that wrote a line ("" without one) and its text, colours taken out.

    Raises Unclear where a second rank writes into the line: whose numbers follow cannot be told.

    >>> plain(b"[default3]: \\x1b[31mstep: 7\\x1b[39m")
    ('[default3]:', 'step: 7')
    """
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    text = line.decode("utf-8", "replace")
    if "]:" not in text and ": " not in text[:8]:
        return "", text
    label = _LABEL.match(text)
    end = label.end() if label else 0
    if _INNER.search(text, end):
        raise Unclear("two ranks in one line")
    return text[:end].strip(), text[end:]
