"""A declared pattern: its named groups are the fields (`step`, `loss`, `lr`, `grad_norm`, `val_loss`, ...).

A pattern comes from a YAML text and may be slow on a line nobody thought of. It is therefore searched in a
child process under a time limit a line; a line that takes longer is counted, and a pattern that is too slow
again and again is given up. Lines that are at hand together make one round trip to the child.
"""

import contextlib
import json
import logging
import re
import select
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from orchestrator.core.facts import Fact
from orchestrator.errors import PluginError
from orchestrator.telemetry._keys import role
from orchestrator.telemetry._line import LineParser, Row
from orchestrator.telemetry._table import Keyed
from orchestrator.telemetry._text import LIMIT, Unclear, plain

_log = logging.getLogger(__name__)
_SECONDS = 0.1  # a line
_GRACE = 5.0  # for a child that does not answer at all
_PATIENCE = 5  # lines that may be too slow
_TOGETHER = 256  # lines of one request to the child

Answer: TypeAlias = list[str | None] | str | None  # the values of the pattern's groups, or "late"
_decode = msgspec.json.Decoder(list[Answer]).decode


class RegexParser(LineParser):
    def __init__(self, attempt: int, pattern: str, seconds: float = _SECONDS) -> None:
        super().__init__(attempt)
        self._keyed = Keyed()
        self._names = _names(pattern)
        self._order = json.dumps([seconds, pattern]).encode() + b"\n"
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._late = 0
        self._known: dict[str, Answer] = {}

    def ahead(self, lines: Sequence[bytes]) -> None:
        """Look at lines that will be fed next, many in one round trip; what cannot be had so is looked at singly."""
        texts = list(dict.fromkeys(filter(None, map(_text, lines))))
        self._known = {}
        with contextlib.suppress(OSError, ValueError):
            for begin in range(0, len(texts), _TOGETHER):
                if self._late + list(self._known.values()).count("late") >= _PATIENCE:
                    return
                some = texts[begin : begin + _TOGETHER]
                self._known.update(zip(some, self._ask(some), strict=True))
            return
        self._stop()

    def rows(self, text: str) -> Sequence[Row] | None:
        if self._late >= _PATIENCE or len(text) > LIMIT:
            return None
        said = self._search(text)
        if not said:
            return None
        named = dict(zip(self._names, said, strict=True))
        return self._keyed.read({n: raw for n, raw in named.items() if raw is not None} if None in said else named)

    def rest(self) -> Sequence[Row]:
        return self._keyed.rest()

    def close(self) -> Sequence[Fact]:
        self._stop()
        return super().close()

    def _search(self, text: str) -> list[str | None] | None:
        answer = self._known.get(text, "")
        if answer == "":
            try:
                (answer,) = self._ask([text])
            except (OSError, ValueError):  # the child is gone, or does not answer
                self._stop()
                answer = "late"
        if not isinstance(answer, str):
            return answer
        self._late += 1
        if self._late == _PATIENCE:
            _log.warning("the pattern was too slow on %d lines and is given up: no further line is read", _PATIENCE)
            self._stop()
        raise Unclear("the pattern takes too long on this line")

    def _ask(self, texts: Sequence[str]) -> list[Answer]:
        """The child's answers; OSError or ValueError when they did not come in time, or not all."""
        if self._child is None:
            self._child = _started(self._order)
            weakref.finalize(self, _end, self._child)
        child = self._child
        assert child.stdin
        assert child.stdout
        lines = "\n".join(texts)
        if lines.count("\n") != len(texts) - 1:
            lines = "\n".join(text.replace("\n", " ") for text in texts)
        # The child reads all of a request before it answers: neither waits for the other with a full pipe.
        child.stdin.write(b"%d\n%b\n" % (len(texts), lines.encode("utf-8", "replace")))
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], self._seconds * len(texts) + _GRACE)
        answers = _decode(child.stdout.readline() if ready else b"")
        if len(answers) != len(texts):
            raise ValueError(f"{len(answers)} answers to {len(texts)} lines")
        return answers

    def _stop(self) -> None:
        if self._child is not None:
            _end(self._child)
            self._child = None


def _text(line: bytes) -> str | None:
    """A line's text as `rows` will get it; None where it will not."""
    try:
        text = plain(line)[1]
    except Unclear:
        return None
    return text if len(text) <= LIMIT else None


def _names(pattern: str) -> tuple[str, ...]:
    try:
        names = tuple(re.compile(pattern).groupindex)
    except re.error as error:
        raise PluginError(f"the pattern {pattern!r} is no regular expression: {error}") from error
    if not any((what := role(name)) and what.field != "step" for name in names):
        raise PluginError(
            f"the pattern {pattern!r} names no field: write groups such as (?P<step>\\d+) and (?P<loss>\\S+)"
        )
    return names


def _started(order: bytes) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).with_name("_matcher.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin
    child.stdin.write(order)
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe:
            with contextlib.suppress(OSError):  # what was not sent is lost with the child
                pipe.close()


def parser(attempt: int, pattern: str = "") -> RegexParser:
    """A parser of `pattern`; PluginError when it is none or names no field."""
    return RegexParser(attempt, pattern)
