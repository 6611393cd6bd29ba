"""Parsing a text through a format, as the tests of all formats do it."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from log_samples import PATTERN

from orchestrator import registry
from orchestrator.core.facts import Fact
from orchestrator.telemetry import Parser
from orchestrator.telemetry._text import Lines


def made(form: str) -> Parser:
    module = registry.load("telemetry", form.partition(":")[0])  # "deepspeed:chat" is a kind of lines of deepspeed
    return module.parser(1, pattern=PATTERN) if form == "regex" else module.parser(1)


@pytest.fixture
def parser_of() -> Callable[[str], Parser]:
    return made


@pytest.fixture
def parse() -> Callable[..., tuple[list[Fact], Parser]]:
    """Facts and parser of a text, handed over in the given pieces (by default whole)."""

    def run(form: str, text: str | bytes, pieces: Sequence[int] = ()) -> tuple[list[Fact], Parser]:
        data = text.encode() if isinstance(text, str) else text
        parser, lines, facts = made(form), Lines(), []
        for start, end in pairwise([0, *pieces, len(data)]):
            for line in lines.feed(data[start:end]):
                facts += parser.feed(line)
        for line in lines.close():
            facts += parser.feed(line)
        facts += parser.close()
        parser.skipped += lines.dropped
        return facts, parser

    return run
