"""Patience with storage: what may pass is tried again, what stays is said at once."""

from collections.abc import Callable

import pytest

from orchestrator.store.patience import StorageError, patiently


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)


def failing(times: int, error: Exception) -> tuple[Callable[[], str], list[int]]:
    calls: list[int] = []

    def call() -> str:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return "done"

    return call, calls


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), TimeoutError(), ConnectionResetError()])
def test_what_may_be_gone_the_next_time_is_tried_again(error: Exception):
    call, calls = failing(3, error)
    assert patiently(call) == "done"
    assert len(calls) == 4


@pytest.mark.parametrize("error", [FileNotFoundError(), PermissionError(13, "Permission denied"), ValueError("a bug")])
def test_what_stays_as_it_is_is_said_at_once(error: Exception):
    call, calls = failing(9, error)
    with pytest.raises(type(error)):
        patiently(call)
    assert len(calls) == 1


def test_patience_ends():
    call, calls = failing(99, OSError(5, "Input/output error"))
    with pytest.raises(StorageError, match=r"cannot be asked: OSError: .*Input/output"):
        patiently(call)
    assert len(calls) == 5
