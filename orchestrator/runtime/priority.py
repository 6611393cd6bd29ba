"""Watching goes after training: on a host whose cores are all at work, what we do waits for a gap in what it does.

Linux keeps a niceness for each thread; threads and processes begin with that of the thread that starts them. So the
thread that starts the job must not give way.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

WATCHING = 10  # a tenth of a fair share where nobody leaves a gap: enough to be heard in time


def give_way(niceness: int) -> int:
    """Let this thread go after those of lower niceness from now on; what it was before."""
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(before, niceness))
    return before


@contextlib.contextmanager
def giving_way(niceness: int) -> Iterator[None]:
    """The same for a while, where the system lets this user come back from it."""
    before = give_way(niceness)
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), before)
