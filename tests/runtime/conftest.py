"""The scripted run as a fixture; whatever a test forgot to end is ended."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.scripted import Run


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    left = made.processes()
    made.clean()
    assert not left, f"processes were left: {[process.cmdline() for process in left]}"
