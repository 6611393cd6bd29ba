"""Why an attempt ended, from its exit record, the launcher's error file and the end of its output.

A launcher's own exit code says nothing about its workers (torchrun ends with 1 whatever they did), so
words come first, codes last.
"""

import re
import signal
from pathlib import Path
from typing import Any

from orchestrator.core.facts import Cause
from orchestrator.wire import read_json

TAIL = 64 * 1024
LINE = 300  # characters of a message that are kept
_WORDS: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    ("oom", re.compile(r"CUDA out of memory|OutOfMemoryError|std::bad_alloc|Cannot allocate memory|oom[-_]kill", re.I)),
    ("disk_full", re.compile(r"No space left on device|Disk quota exceeded|ENOSPC", re.I)),
    ("host", re.compile(r"DUE TO NODE FAILURE|Node failure on \w+")),
    ("preemption", re.compile(r"DUE TO PREEMPTION")),
    ("numeric", re.compile(
        r"loss scale (?:is )?(?:already )?at (?:its )?minimum|minimum loss scale reached"  # DeepSpeed, fairseq
        r"|found (?:NaN|Inf) in local grad norm|returned (?:nan|inf) values in its"  # Megatron, torch's anomaly mode
        r"|loss (?:returned in `\w+` )?is (?:nan|inf)(?: or |, stopping|\.$)", re.I | re.M,
    )),
)  # fmt: skip
# What the surroundings of a job may do to any start of it: only as its own last words, never from a warning before.
_SURROUNDINGS = re.compile(r"Address already in use|EADDRINUSE|errno: 98\b", re.I)
_IMPORT = re.compile(r"^(?:\[rank\d+\]:\s*)?(ModuleNotFoundError|ImportError|SyntaxError): .*$", re.M)
_NO_FILE = re.compile(r"can't open file '[^']*': .*$", re.M)
_ERROR = re.compile(r"^(?:\[rank\d+\]:\s*)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b.*)$", re.M)


def cause_of(record: dict[str, Any], output: Path, error: Path, stepped: bool) -> tuple[Cause, str]:
    """The cause and, in words, why; `stepped` tells whether the attempt ever took a step."""
    if record.get("spawn"):
        return "command", f"the command cannot be started: {record['spawn']}"
    if record.get("lost"):
        return "host", str(record["why"])
    text = _tail(output)
    message = _message(error) or _last_error(text)
    for cause, words in _WORDS:
        if (found := words.search(text)) is not None:
            return cause, message or found[0]
    if not stepped and (found := _IMPORT.search(text) or _NO_FILE.search(text)):
        return "command", found[0]
    how = _how(record)
    if _SURROUNDINGS.search(message):
        return "environment", f"{message} ({how})"
    return "crash", f"{message} ({how})" if message else how


# What the other ranks and the launcher say when one rank fails.
_CONSEQUENCE = re.compile(
    r"ChildFailedError|SignalException|Connection (?:closed|reset) by peer|Broken pipe|NCCL (?:error|communicator)"
    r"|DistBackendError|DistNetworkError|ProcessGroup\w* .*(?:abort|timeout)", re.I
)  # fmt: skip


def _how(record: dict[str, Any]) -> str:
    if record.get("signal"):
        try:
            return f"killed by {signal.Signals(record['signal']).name}"
        except ValueError:
            return f"killed by signal {record['signal']}"
    if record.get("code") is None:
        return str(record.get("why", "its keeper was killed and left no exit record"))
    return f"exit code {record['code']}"


def _tail(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(path.stat().st_size - TAIL, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _message(path: Path) -> str:
    """The first failing rank's own message, as torchrun's error file holds it."""
    body = read_json(path)
    try:
        message = body["message"]
        words: str = message["message"] if isinstance(message, dict) else message
        return words.strip().splitlines()[-1][:LINE]
    except (KeyError, TypeError, AttributeError, IndexError):
        return ""


def _last_error(text: str) -> str:
    found = _ERROR.findall(text)
    causes = [line for line in found if not _CONSEQUENCE.search(line)]
    line = causes[0] if causes else found[-1] if found else ""
    return line.strip()[:LINE]
