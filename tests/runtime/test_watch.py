"""The eyes on an attempt, on a file that a test writes itself."""

import queue
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator import wire
from orchestrator.config import AttemptDir
from orchestrator.runtime import watch


def test_while_something_is_the_matter_what_is_written_is_looked_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "POLL", 3600.0)
    monkeypatch.setattr(watch, "POLL_MOST", 3600.0)
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()
    options = {"telemetry": {"kind": "wire"}, "checkpoints": {"layout": "dcp"}, "cwd": str(tmp_path), "storage": None}
    telemetry = tmp_path / wire.TELEMETRY
    telemetry.write_text('{"type":"step","step":1,"loss":2.5}\n')
    eyes = watch.Watch(AttemptDir(tmp_path), 1, (0, 0), told.put, time.time, options)
    eyes.start()
    try:
        assert [record.fact.step for record in told.get(timeout=10)] == [1]
        with open(telemetry, "a") as file:
            file.write('{"type":"step","step":2,"loss":9.5}\n')
        eyes.attend(True)
        assert [record.fact.step for record in told.get(timeout=10)] == [2]
    finally:
        eyes.stop()
        eyes.join(10)
    assert not eyes.is_alive()
