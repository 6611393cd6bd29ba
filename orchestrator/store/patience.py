"""Storage that has its moments: a call is tried again, and what stays wrong is one kind of error."""

from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryError, retry, retry_if_exception, stop_after_attempt, wait_random_exponential

Value = TypeVar("Value")
_STORAGE = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "adlfs", "fsspec")
_FOR_GOOD = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
UNASKED = "its storage cannot be asked"


class StorageError(OSError):
    """Storage that did not answer, after some patience: that says nothing about what it holds."""


def transient(error: BaseException) -> bool:
    """Whether a storage error may be gone the next time."""
    if isinstance(error, _FOR_GOOD):
        return False
    return isinstance(error, OSError | TimeoutError) or type(error).__module__.split(".")[0] in _STORAGE


def patiently(call: Callable[[], Value]) -> Value:
    """What a call returns, tried five times where storage has its moments; then StorageError is raised."""
    again = retry(
        retry=retry_if_exception(transient), stop=stop_after_attempt(5),
        wait=wait_random_exponential(0.1, max=3.0),
    )  # fmt: skip
    try:
        return again(call)()
    except RetryError as spent:
        error = spent.last_attempt.exception()
        raise StorageError(f"{UNASKED}: {type(error).__name__}: {error}") from error
