"""Telling people and machines outside, on a thread of its own: nobody waits for a network.

What was sent, and what could not be, stands in notices.jsonl of the run directory.
"""

import json
import queue
import threading
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from orchestrator import registry
from orchestrator.config import RunDir

WAITING = 100  # notices that may wait; more are dropped and said to be
LEAVE = 15.0  # seconds the last notices have when the run is over


class Notices(threading.Thread):
    """Hands each notice to every channel that has an address in the environment."""

    def __init__(self, run: RunDir) -> None:
        super().__init__(name="notices", daemon=True)
        self._run = run
        self._todo: queue.Queue[Mapping[str, Any] | None] = queue.Queue(WAITING)
        loaded = [registry.load("notify", name) for name in registry.names("notify")]
        self._channels: list[ModuleType] = [channel for channel in loaded if channel.address() is not None]
        if self._channels:
            self.start()

    def tell(self, text: str, **more: object) -> str:
        """Queue one notice; in words, who is told."""
        if not self._channels:
            return "nobody is told: no address is set, such as ORCHESTRATE_WEBHOOK"
        names = ", ".join(channel.__name__.rpartition(".")[2] for channel in self._channels)
        try:
            self._todo.put_nowait({"text": text, "run": str(self._run.path), **more})
        except queue.Full:
            return f"not told: {WAITING} notices wait for {names} already"
        return f"handed to {names}"

    def finish(self) -> None:
        """Send what waits, for a bounded time."""
        if self.is_alive():
            self._todo.put(None)
            self.join(LEAVE)

    def run(self) -> None:
        """Until `finish`."""
        while (notice := self._todo.get()) is not None:
            for channel in self._channels:
                self._send(channel, notice)

    def _send(self, channel: ModuleType, notice: Mapping[str, Any]) -> None:
        wrong = ""
        try:
            channel.send(notice)
        except (OSError, ValueError) as error:
            wrong = f"{type(error).__name__}: {error}"
        name = channel.__name__.rpartition(".")[2]
        line = {"time": time.time(), "channel": name, "sent": not wrong, "wrong": wrong, "text": notice["text"]}
        with open(self._run.path / "notices.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(line, ensure_ascii=False) + "\n")
