"""What a pickle says, without running it: a child process reads it with classes that do nothing.

This process never unpickles. One child serves a batch; it starts in isolated mode without site-packages or
torch, and answers one line of JSON a pickle (`_pickled_child.py`). A pickle that kills it costs itself only.
"""

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

_CHILD = Path(__file__).with_name("_pickled_child.py")
_SECONDS = 30.0
_BYTES_PER_SECOND = 2e6


class Metadata(NamedTuple):
    """A DCP `.metadata`: up to which byte each file is used, and which parts its keys speak of."""

    ends: dict[str, int]
    parts: frozenset[str]


def metadata(blobs: Sequence[bytes]) -> list[Metadata | str]:
    """DCP metadata of many checkpoints; a string says why one cannot be trusted."""
    return [
        each if isinstance(each, str) else Metadata(each["ends"], frozenset(each["parts"]))
        for each in _ask("metadata", blobs)
    ]


class Top(NamedTuple):
    """The top of a pickled dict: its keys, and the whole numbers among its values."""

    numbers: dict[str, int]
    keys: frozenset[str]


def tops(blobs: Sequence[bytes]) -> list[Top | str]:
    """The top of the dict that each pickle (`data.pkl` of a torch file) holds."""
    return [
        each if isinstance(each, str) else Top(each["numbers"], frozenset(each["keys"])) for each in _ask("top", blobs)
    ]


def _ask(what: Literal["metadata", "top"], blobs: Sequence[bytes]) -> list[dict[str, Any] | str]:
    answers: list[dict[str, Any] | str] = []
    while len(answers) < len(blobs):
        lines, end = _run(what, blobs[len(answers) :])
        answers += [_answer(line) for line in lines]
        if len(answers) < len(blobs):
            answers.append(f"its pickle cannot be read: {end}")
    return answers


def _answer(line: bytes) -> dict[str, Any] | str:
    value: dict[str, Any] = json.loads(line)
    return str(value["wrong"]) if "wrong" in value else value


def _run(what: str, blobs: Sequence[bytes]) -> tuple[list[bytes], str]:
    """Whole lines of answers, and how the child ended."""
    frames = b"".join(struct.pack(">Q", len(blob)) + blob for blob in blobs)
    command = [sys.executable, "-I", "-S", str(_CHILD), what]
    limit = _SECONDS + len(frames) / _BYTES_PER_SECOND
    try:
        done = subprocess.run(command, input=frames, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired as late:
        return _lines(late.stdout or b"")[: len(blobs)], f"its reader took more than {limit:.0f} s"
    return _lines(done.stdout)[: len(blobs)], f"its reader ended with code {done.returncode}"


def _lines(output: bytes) -> list[bytes]:
    return output.split(b"\n")[:-1]
