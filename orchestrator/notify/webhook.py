"""A webhook: the notice as JSON by POST. Its `text` is what chat services show."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential

ADDRESS = "ORCHESTRATE_WEBHOOK"
TIMEOUT = 5.0


def address() -> str | None:
    """The URL to post to."""
    return os.environ.get(ADDRESS) or None


def _passes(error: BaseException) -> bool:
    """Whether another try may help: the network, the server's own trouble, or too many requests."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code == 429
    return isinstance(error, OSError)


@retry(retry=retry_if_exception(_passes), stop=stop_after_attempt(4), wait=wait_exponential(0.2, max=4), reraise=True)
def send(notice: Mapping[str, Any]) -> None:
    """Post one notice; OSError when the last try failed, ValueError when the address is no web address."""
    url = address() or ""
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"{ADDRESS} is not an http or https address")
    body = json.dumps(dict(notice), ensure_ascii=False).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT):
        pass
