"""The Hugging Face Trainer's trainer_state.json: its log_history, in full precision."""

import json
from collections.abc import Iterator
from pathlib import Path

from orchestrator.core.facts import Fact
from orchestrator.errors import PluginError
from orchestrator.telemetry._line import Teller
from orchestrator.telemetry._table import Keyed


def read(path: str | Path, attempt: int = 1) -> Iterator[Fact]:
    """The facts of a state file, or of the one in a checkpoint folder; PluginError where it is none."""
    path = Path(path)
    file = path / "trainer_state.json" if path.is_dir() else path
    try:
        history = json.loads(file.read_text(encoding="utf-8"))["log_history"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise PluginError(f"{file} is no trainer_state.json with a log_history: {error!r}") from error
    keyed, teller = Keyed(), Teller(attempt)
    for entry in history if isinstance(history, list) else ():
        if isinstance(entry, dict) and "step" in entry and "train_runtime" not in entry:
            try:
                rows = keyed.read(entry) or ()
            except ValueError:
                continue
            yield from teller.facts(rows)
    yield from teller.facts(keyed.rest())
