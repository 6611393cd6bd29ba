"""What trainer and supervisor say to each other, and the files and variables both know.

Standard library only: the trainer's environment may hold nothing else. Messages are JSON lines, one
each, UTF-8; a float that is not finite travels as one of the strings "nan", "inf", "-inf".
"""

import json
import math
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

SCHEMA = 1

# The environment of a supervised job.
RUN_DIR = "ORCHESTRATE_RUN_DIR"
ATTEMPT = "ORCHESTRATE_ATTEMPT"
RESUME = "ORCHESTRATE_RESUME"
QUARANTINE = "ORCHESTRATE_QUARANTINE"
LR_SCALE = "ORCHESTRATE_LR_SCALE"
CHECKPOINTS = "ORCHESTRATE_CHECKPOINTS"  # where to save: a folder, or a URL that fsspec reaches
RUN = "ORCHESTRATE_RUN"  # which run this is; every checkpoint's marker says it

# Files of one attempt, below attempt_dir().
TELEMETRY = "telemetry.jsonl"
DIRECTIVE = "directive.json"
PLAN = "plan.json"
STACKS = "stacks"

# Not empty: the optimizer's state is left behind at the resume.
RESET_MOMENTS = "ORCHESTRATE_RESET_MOMENTS"

# A checkpoint written through the hook is complete only when this file stands in it.
COMPLETE = "orchestrate.json"


def attempt_dir(run_dir: str | Path, attempt: int) -> Path:
    """The folder of one attempt: telemetry out, directives in, output, exit record."""
    return Path(run_dir) / "attempts" / f"{attempt:04d}"


def telemetry_file(run_dir: str | Path, attempt: int, rank: int = 0) -> Path:
    """The stream of one rank; only rank 0 writes every step."""
    name = TELEMETRY if rank == 0 else f"telemetry.rank{rank}.jsonl"
    return attempt_dir(run_dir, attempt) / name


def number(value: object) -> float | None:
    """A float from the wire, its three words for the non-finite included; None when it is no number.

    >>> number("-inf"), number(2), number("two"), number(True)
    (-inf, 2.0, None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str) and value.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(value)
    return None


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def encode(message: dict[str, Any]) -> str:
    """One message as one line without its newline.

    >>> encode({"type": "step", "step": 3, "loss": float("nan")})
    '{"type":"step","step":3,"loss":"nan"}'
    """
    try:
        return _encode(message)
    except ValueError:
        return _encode(_finite(message))


def read_json(path: str | Path) -> Any:
    """The JSON of a file, or None where it is missing or not (yet) whole."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write_json(path: str | Path, value: Any, sync: bool = True) -> None:
    """Replace a file by JSON in one step: readers see the old text or the new one, synced to disk."""
    write_text(path, json.dumps(value, ensure_ascii=False, allow_nan=False), sync)


def write_text(path: str | Path, text: str, sync: bool = True) -> None:
    """Replace a file's text in one step, synced to disk."""
    path = Path(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(aside, path)


def quarantine_text(shards: list[str] | tuple[str, ...]) -> str:
    """The quarantine file: one percent-encoded shard id a line."""
    return "".join(f"{quote(shard, safe='/:=@,+')}\n" for shard in shards)


def quarantine_shards(text: str) -> tuple[str, ...]:
    """The shard ids of a quarantine file.

    >>> quarantine_shards(quarantine_text(["web 1\\n", "a/b-%2"]))
    ('web 1\\n', 'a/b-%2')
    """
    return tuple(unquote(line) for line in text.split("\n") if line)
