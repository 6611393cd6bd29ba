"""One source or log format a file: from what a trainer prints to facts.

A line format has `parser(attempt) -> Parser`; a recording that is no text has `read(path)`, which yields
facts in order. A line that is broken or of no known kind is counted in `skipped`, never fatal; a number
that cannot be read surely is left out, never guessed. Modules with an underscore are what formats share;
`_text` has what cuts a growing file into lines, and reads a whole one. A parser for which many lines at once
are cheaper has `ahead(lines)` too: it is told what will be fed next, and may work it out together.
"""

from collections.abc import Sequence
from typing import Protocol

from orchestrator.core.facts import Fact


class Parser(Protocol):
    """A streaming parser of one text: lines in, facts out, as soon as each record is whole."""

    skipped: int

    def feed(self, line: bytes) -> Sequence[Fact]:
        """The facts that this line (without its newline) completes."""
        ...

    def close(self) -> Sequence[Fact]:
        """The facts still held when the text ends."""
        ...
