"""A declared pattern, and the limits it is under."""

import psutil
import pytest

from orchestrator.core.facts import Eval, Step
from orchestrator.errors import PluginError
from orchestrator.telemetry import regex
from orchestrator.telemetry._text import fed


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


LOG = [b"it=%d loss=%.2f" % (step, 2.0 + step / 100) for step in range(1, 700)]


def test_lines_at_hand_together_say_what_they_say_one_by_one(parser_for):
    lines = [*LOG[:300], b"another line", b"[rank0]: it=300 loss=9[rank1]: it=300", b"two\nlines", *LOG[300:], LOG[-1]]
    pattern = r"it=(?P<step>\d+) loss=(?P<loss>\S+)(?: val=(?P<val_loss>\S+))?"
    single, together = parser_for(pattern), parser_for(pattern)
    assert fed(together, lines) == [fact for line in lines for fact in single.feed(line)]
    assert together.skipped == single.skipped == 3


def test_together_a_slow_line_costs_only_itself(parser_for):
    parser = parser_for(r"(?:(?:a+)+b|it=(?P<step>\d+) loss=(?P<loss>\S+))", seconds=0.05)
    lines = [*LOG[:40], b"a" * 40, *LOG[40:80]]
    assert [fact.step for fact in fed(parser, lines)] == list(range(1, 81))
    assert parser.skipped == 1


def test_together_a_slow_pattern_is_given_up_all_the_same(parser_for, caplog):
    parser = parser_for(r"(?P<loss>(?:a+)+)b(?P<step>\d+)", seconds=0.02)
    lines = [b"a" * (40 + more) for more in range(9)]
    assert fed(parser, lines) == []
    assert fed(parser, lines) == []
    assert parser.skipped == 18
    assert caplog.text.count("given up") == 1
    assert psutil.Process().children() == []


def test_a_child_that_dies_over_many_lines_loses_none(parser_for):
    parser = parser_for(r"it=(?P<step>\d+) loss=(?P<loss>\S+)")
    parser.feed(LOG[0])
    (child,) = psutil.Process().children()
    child.kill()
    child.wait(5)
    assert [fact.step for fact in fed(parser, LOG[1:])] == list(range(2, 700))


def test_answers_longer_than_a_pipe_holds(parser_for):
    parser = parser_for(r"(?P<loss>\d+)(?P<colour>.*)(?P<sound>.*)")
    lines = [b"%d%s" % (n, b"x" * 5000) for n in range(300)]
    assert len(fed(parser, lines)) == 300
