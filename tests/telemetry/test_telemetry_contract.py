"""What holds for every format of the family."""

import random
import string

import pytest
from log_samples import SAMPLES

from orchestrator import registry
from orchestrator.core.facts import Eval, Step
from orchestrator.telemetry._text import fed

LINES = sorted(SAMPLES)
READERS = sorted(
    name for name in registry.names("telemetry") if not hasattr(registry.load("telemetry", name), "parser")
)
FAST = [form for form in LINES if form != "regex"]  # one round trip to a child a line


def test_every_format_of_the_command_line_is_there_and_no_shared_module():
    formats = {name.partition(":")[0] for name in SAMPLES}
    assert set(registry.names("telemetry")) == {*formats, "tensorboard", "hf_state"}
    assert len(formats) == 21
    assert READERS == ["hf_state", "tensorboard"]
    assert all(callable(registry.load("telemetry", name).read) for name in READERS)


@pytest.mark.parametrize("form", LINES)
def test_a_sample_says_what_a_careful_reader_takes_from_it(form, parse):
    sample = SAMPLES[form]
    facts, parser = parse(form, sample.text)
    assert [(fact.attempt, fact.step, fact.loss) for fact in facts if isinstance(fact, Step)] == sample.steps
    assert [(fact.step, fact.name, fact.value) for fact in facts if isinstance(fact, Eval)] == [*sample.evals]
    assert parser.skipped == sample.skipped


@pytest.mark.parametrize("form", LINES)
def test_a_loss_that_is_not_finite_stands_by_name(form, parse):
    facts, _ = parse(form, SAMPLES[form].text)
    lost = [fact for fact in facts if isinstance(fact, Step) and fact.loss is None and not fact.skipped]
    assert all("loss" in fact.nonfinite for fact in lost)


@pytest.mark.parametrize("form", LINES)
def test_a_growing_text_says_the_same_wherever_it_is_cut(form, parse):
    data = SAMPLES[form].text.encode()
    whole, _ = parse(form, data)
    byte_by_byte, _ = parse(form, data, range(1, len(data)))
    assert byte_by_byte == whole
    for cut in range(1, len(data), 1 if form in FAST else 29):
        assert parse(form, data, [cut])[0] == whole


@pytest.mark.parametrize("form", LINES)
def test_windows_newlines_change_nothing(form, parse):
    text = SAMPLES[form].text
    assert parse(form, text.replace("\n", "\r\n"))[0] == parse(form, text)[0]


@pytest.mark.parametrize("form", LINES)
def test_colours_change_nothing(form, parse):
    text = SAMPLES[form].text
    coloured = text.replace(" ", " \x1b[1;38;2;9;10;11m").replace("\n", "\x1b[0m\n")
    if form not in (
        "wire",
        "csv",
        "jsonl",
        "llamafactory",
        "levanter",
        "llamafactory:ms-swift",
    ):  # written to files, never coloured
        assert parse(form, coloured)[0] == parse(form, text)[0]


@pytest.fixture(scope="module")
def garbage():
    """40,000 lines: any bytes, and the words that trainers use in any order."""
    draw = random.Random(20)
    alphabet = string.printable.replace("\n", "").replace("\r", "").encode() + bytes(range(128, 256))
    words = (
        b"step loss nan inf iteration | : = [ ] { } ' \" , / 1e9 12 0.5 -7 lr grad_norm rank0 Epoch % ep train".split()
    )
    anything = [bytes(draw.choices(alphabet, k=draw.randrange(1, 160))) for _ in range(20_000)]
    return [*anything, *(b" ".join(draw.choices(words, k=draw.randrange(1, 30))) for _ in range(20_000))]


@pytest.mark.parametrize("form", LINES)
def test_garbage_is_counted_and_never_read(form, parser_of, garbage):
    parser = parser_of(form)
    assert fed(parser, garbage) == []
    assert not parser.close()
    assert parser.skipped >= len(garbage) - sum(1 for line in garbage if not line.strip())


@pytest.mark.parametrize("form", FAST)
def test_damaged_lines_never_raise(form, parser_of):
    draw = random.Random(form)
    lines = SAMPLES[form].text.encode().splitlines()
    parser = parser_of(form)
    for _ in range(2000):
        line = bytearray(draw.choice(lines))
        for _ in range(draw.randrange(1, 4)):
            line[draw.randrange(len(line))] = draw.randrange(256)
        parser.feed(bytes(line))
    parser.close()


@pytest.mark.parametrize("form", [form for form in FAST if SAMPLES[form].sealed])
def test_cut_and_glued_lines_give_no_number_that_was_not_printed(form, parser_of):
    sample = SAMPLES[form]
    lines = sample.text.encode().splitlines()
    alone = [fact for line in lines for fact in _facts(parser_of(form), line)]
    printed = {(fact.step, fact.loss) for fact in alone if isinstance(fact, Step)}
    values = {value for _, _, value in sample.evals}
    for first in lines:
        for cut in range(1, len(first)):
            for second in (b"", *lines):
                facts = _facts(parser_of(form), first[:cut] + second)
                assert {(fact.step, fact.loss) for fact in facts if isinstance(fact, Step) and fact.loss} <= printed
                assert {fact.value for fact in facts if isinstance(fact, Eval)} <= values


def _facts(parser, line):
    return [*parser.feed(line), *parser.close()]


@pytest.mark.parametrize("form", LINES)
def test_a_line_over_the_limit_is_counted_without_being_read(form, parse):
    text = SAMPLES[form].text
    facts, parser = parse(form, "x" * 70_000 + "\n" + text)
    assert facts == parse(form, text)[0]
    assert parser.skipped == SAMPLES[form].skipped + 1
