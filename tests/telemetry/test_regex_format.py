"""A declared pattern, and the limits it is under."""

import psutil
import pytest

from orchestrator.core.facts import Eval, Step
from orchestrator.errors import PluginError
from orchestrator.telemetry import regex


@pytest.fixture
def parser_for():
    made = []

    def make(pattern, **options):
        made.append(regex.RegexParser(1, pattern, **options))
        return made[-1]

    yield make
    for parser in made:
        parser.close()


def test_named_groups_are_fields(parser_for):
    parser = parser_for(r"it=(?P<step>\d+) loss=(?P<loss>\S+)(?: val=(?P<val_loss>\S+))?")
    assert parser.feed(b"x it=4 loss=2.5") == [Step(1, 4, loss=2.5)]
    assert parser.feed(b"x it=5 loss=nan val=2.75") == [Step(1, 5, nonfinite=("loss",)), Eval(1, 5, "val_loss", 2.75)]
    assert parser.feed(b"another line") == ()
    assert parser.skipped == 1


@pytest.mark.parametrize("pattern", ["", "(", r"(?P<step>\d+)", r"(?P<colour>\w+)"])
def test_a_pattern_that_cannot_serve_is_refused(pattern):
    with pytest.raises(PluginError):
        regex.parser(1, pattern)


def test_a_slow_pattern_is_cut_off_and_given_up(parser_for, caplog):
    parser = parser_for(r"(?P<loss>(?:a+)+)b(?P<step>\d+)", seconds=0.02)
    for _ in range(7):
        assert parser.feed(b"a" * 40) == ()
    assert parser.skipped == 7
    assert "given up" in caplog.text
    assert psutil.Process().children() == []


def test_a_slow_line_costs_only_itself(parser_for):
    parser = parser_for(r"(?:(?:a+)+b|it=(?P<step>\d+) loss=(?P<loss>\S+))", seconds=0.05)
    assert parser.feed(b"a" * 40) == ()
    assert parser.feed(b"it=4 loss=2.5") == [Step(1, 4, loss=2.5)]


def test_a_child_that_was_killed_is_replaced(parser_for):
    parser = parser_for(r"it=(?P<step>\d+) loss=(?P<loss>\S+)")
    assert parser.feed(b"it=1 loss=2.5")
    (child,) = psutil.Process().children()
    child.kill()
    child.wait(5)
    assert parser.feed(b"it=2 loss=2.5") == ()
    assert parser.feed(b"it=3 loss=2.5") == [Step(1, 3, loss=2.5)]


def test_closing_leaves_no_process(parser_for):
    parser = parser_for(r"it=(?P<step>\d+) loss=(?P<loss>\S+)")
    parser.feed(b"it=1 loss=2.5")
    parser.close()
    assert psutil.Process().children() == []
