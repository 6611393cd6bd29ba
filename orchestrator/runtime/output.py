"""A job's output kept within bounds while the job writes on: its beginning and its end stay on the disk.

The job holds the file open for appending, so it is cut in place and never renamed. Where telemetry is read from it,
places in it must not move: there, what was read and journaled gives back its blocks and reads as zeros.
"""

import contextlib
import ctypes
import os
from pathlib import Path

HEAD = 1 << 20  # bytes of the beginning that are kept
TAIL = 8 << 20  # bytes of the end that are kept
LIMIT = 64 << 20  # bytes that the whole may have before it is cut
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02  # linux/falloc.h


def shorten(path: Path) -> None:
    """Leave the middle out of an output over LIMIT that nobody reads by place.

    What the job writes in the very moment of the cut may be lost; so may the end where the disk is full.
    """
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        if size <= LIMIT:
            return
        with open(path, "rb") as file:
            file.seek(size - TAIL)
            tail = file.read()
        tail = tail[tail.find(b"\n") + 1 :]
        os.truncate(path, HEAD)
        with open(path, "ab", buffering=0) as file:
            file.write(b"\n[... %d bytes are left out here ...]\n" % (size - HEAD - TAIL) + tail)


def forget(path: Path, begin: int, end: int) -> bool:
    """Give back the blocks of [begin, end), which then read as zeros; whether the file system could."""
    try:
        call = ctypes.CDLL(None, use_errno=True).fallocate64
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        with open(path, "r+b") as file:
            return int(call(file.fileno(), _KEEP_SIZE | _PUNCH_HOLE, begin, end - begin)) == 0
    except (OSError, AttributeError):  # musl has no such name
        return False
