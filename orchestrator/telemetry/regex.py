"""A declared pattern: its named groups are the fields (`step`, `loss`, `lr`, `grad_norm`, `val_loss`, ...).

A pattern comes from a YAML text and may be slow on a line nobody thought of. It is therefore searched in a
child process under a time limit a line; a line that takes longer is counted, and a pattern that is too slow
again and again is given up.
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

from orchestrator.core.facts import Fact
from orchestrator.errors import PluginError
from orchestrator.telemetry._keys import role
from orchestrator.telemetry._line import LineParser, Row
from orchestrator.telemetry._table import Keyed
from orchestrator.telemetry._text import LIMIT, Unclear

_log = logging.getLogger(__name__)
_SECONDS = 0.1  # a line
_GRACE = 5.0  # for a child that does not answer at all
_PATIENCE = 5  # lines that may be too slow


class RegexParser(LineParser):
    def __init__(self, attempt: int, pattern: str, seconds: float = _SECONDS) -> None:
        super().__init__(attempt)
        self._keyed = Keyed()
        self._order = json.dumps([seconds, _checked(pattern)]).encode() + b"\n"
        self._wait = seconds + _GRACE
        self._child: subprocess.Popen[bytes] | None = None
        self._late = 0

    def rows(self, text: str) -> Sequence[Row] | None:
        if self._late >= _PATIENCE or len(text) > LIMIT:
            return None
        said = self._search(text)
        return self._keyed.read({name: raw for name, raw in said.items() if raw is not None}) if said else None

    def rest(self) -> Sequence[Row]:
        return self._keyed.rest()

    def close(self) -> Sequence[Fact]:
        self._stop()
        return super().close()

    def _search(self, text: str) -> dict[str, str | None] | None:
        try:
            answer = json.loads(self._ask(text.encode("utf-8", "replace")))
        except (OSError, ValueError):  # the child is gone, or does not answer
            self._stop()
            answer = "late"
        if answer != "late":
            return answer if isinstance(answer, dict) else None
        self._late += 1
        if self._late == _PATIENCE:
            _log.warning("the pattern was too slow on %d lines and is given up: no further line is read", _PATIENCE)
            self._stop()
        raise Unclear("the pattern takes too long on this line")

    def _ask(self, line: bytes) -> bytes:
        """The child's answer; empty when none came in time."""
        if self._child is None:
            self._child = _started(self._order)
            weakref.finalize(self, _end, self._child)
        child = self._child
        assert child.stdin
        assert child.stdout
        child.stdin.write(line.replace(b"\n", b" ") + b"\n")
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], self._wait)
        return child.stdout.readline() if ready else b""

    def _stop(self) -> None:
        if self._child is not None:
            _end(self._child)
            self._child = None


def _checked(pattern: str) -> str:
    try:
        names = re.compile(pattern).groupindex
    except re.error as error:
        raise PluginError(f"the pattern {pattern!r} is no regular expression: {error}") from error
    if not any((what := role(name)) and what.field != "step" for name in names):
        raise PluginError(
            f"the pattern {pattern!r} names no field: write groups such as (?P<step>\\d+) and (?P<loss>\\S+)"
        )
    return pattern


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
