"""An operator's word, as a file in the run directory; its author is the owner of the file."""

import contextlib
import json
import os
import pwd
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from orchestrator.config import RunDir
from orchestrator.core.facts import Order
from orchestrator.errors import RunDirError
from orchestrator.wire import write_json


def give(
    run: RunDir, verb: str, why: str = "", value: float | None = None, host: str = "", shards: Sequence[str] = ()
) -> None:
    """Leave an order for the run's supervisor."""
    try:
        run.orders.mkdir(exist_ok=True)
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
        write_json(run.orders / name, {"verb": verb, "why": why, "value": value, "host": host, "shards": list(shards)})
    except OSError as error:
        raise RunDirError(f"{run.path}: the order cannot be left there: {error.strerror}") from error


def take(run: RunDir, now: float) -> list[tuple[Path, Order]]:
    """The orders that wait, oldest first; the caller removes each file once its fact is journaled."""
    found = []
    for path in _waiting(run):
        try:
            found.append((path, _order(path, now)))
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError, AttributeError):
            path.unlink(missing_ok=True)  # written whole or not at all, so this is no order
    return found


def _waiting(run: RunDir) -> list[Path]:
    """Asked five times a second, and nearly always empty."""
    with contextlib.suppress(FileNotFoundError):
        return [run.orders / name for name in sorted(os.listdir(f"{run.path}/orders")) if name.endswith(".json")]
    return []


def _order(path: Path, now: float) -> Order:
    body = json.loads(path.read_text(encoding="utf-8"))
    value = None if body.get("value") is None else float(body["value"])
    why, host = str(body.get("why", "")), str(body.get("host", ""))
    shards = tuple(map(str, body.get("shards", ())))
    return Order(str(body["verb"]), _name(path.stat().st_uid), now, why, value, host, shards)


def me() -> str:
    """Who speaks at this terminal."""
    return _name(os.getuid())


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
