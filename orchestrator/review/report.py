"""A run as a file for people: a page (.html) or its picture alone (.svg)."""

import os
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.review.report_chart import chart
from orchestrator.review.report_page import page
from orchestrator.review.report_story import story

KINDS = {".html": page, ".htm": page, ".svg": chart}


def write(run: str | Path, out: Path) -> int:
    """Write the report of a run directory; the file's ending says which. The size in bytes.

    RunDirError where there is no run; ConfigError where the ending is another or the file cannot be written.
    """
    draw = KINDS.get(out.suffix.lower())
    if draw is None:
        raise ConfigError(f"{out}: the report is a page or a picture; end its name in .html or .svg")
    text = draw(story(run)).encode()
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        aside.write_bytes(text)
        os.replace(aside, out)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise ConfigError(f"{out}: cannot be written: {error.strerror}") from error
    return len(text)
