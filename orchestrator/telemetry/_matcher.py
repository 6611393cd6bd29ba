"""The child process that runs a declared pattern: a search that takes too long ends here, not in the supervisor.

Run as a script: the first line of its input is the time limit and the pattern, as JSON; every further
line is searched and answered by one line: the named groups, null, or "late".
"""

import json
import re
import signal
import sys
from types import FrameType


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


def main() -> None:
    limit, pattern = json.loads(sys.stdin.buffer.readline())
    search = re.compile(pattern).search
    signal.signal(signal.SIGALRM, _late)
    for line in sys.stdin.buffer:
        answer: object
        try:
            signal.setitimer(signal.ITIMER_REAL, limit)
            found = search(line[:-1].decode("utf-8", "replace"))
            signal.setitimer(signal.ITIMER_REAL, 0)
            answer = found.groupdict() if found else None
        except TimeoutError:
            answer = "late"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
