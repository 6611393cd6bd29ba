"""The command as it stands, on this host."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any


def command(words: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """The words to start; `python` is the supervisor's own interpreter where `job.python` names no other.

    >>> command(["bash", "train.sh"], {})
    ['bash', 'train.sh']
    """
    first, *rest = words
    return [sys.executable if first == "python" else first, *rest]
