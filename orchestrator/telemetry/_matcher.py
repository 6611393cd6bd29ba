"""The child process that runs a declared pattern: a search that takes too long ends here, not in the supervisor.

Run as a script: the first line of its input is the time limit and the pattern, as JSON. Every further request is a line
with a number, and so many lines of text; its answer is one line, a JSON list with, for each text, the values of the
pattern's groups in their order, null, or "late". A search is late when it goes on at two ticks of the limit in a row.
"""

import json
import re
import signal
import sys
from collections.abc import Callable
from types import FrameType


class Search:
    """The pattern's search under the limit."""

    def __init__(self, pattern: str) -> None:
        self._search: Callable[[str], re.Match[str] | None] = re.compile(pattern).search
        self._busy, self._count, self._ticked = False, 0, -1
        signal.signal(signal.SIGALRM, self._tick)

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if self._busy and self._ticked == self._count:
            raise TimeoutError
        self._ticked = self._count

    def answer(self, line: bytes) -> object:
        """What one line of text is answered with."""
        self._count += 1
        try:
            self._busy = True
            found = self._search(line[:-1].decode("utf-8", "replace"))
            self._busy = False
        except TimeoutError:
            self._busy = False
            return "late"
        return list(found.groupdict().values()) if found else None


def main() -> None:
    limit, pattern = json.loads(sys.stdin.buffer.readline())
    search = Search(pattern)
    for head in sys.stdin.buffer:
        lines = [sys.stdin.buffer.readline() for _ in range(int(head))]
        signal.setitimer(signal.ITIMER_REAL, limit, limit)
        answers = [search.answer(line) for line in lines]
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
