"""The journal: encoding is identity, a cut at any byte is a prefix, damage is said."""

import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core import facts as facts_module
from orchestrator.core.facts import FACTS, Action, Cut, Decision, Step, ranks_of
from orchestrator.errors import RunDirError
from orchestrator.store import journal
from orchestrator.store.journal import At, Journal, Record

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def values(hint):
    """Any value of a field's type."""
    if hint is float:
        return NUMBERS
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, args))
    if args:
        return st.one_of([values(arg) for arg in args])
    if hasattr(hint, "_fields"):
        return st.builds(hint, **{n: values(h) for n, h in typing.get_type_hints(hint).items()})
    return {int: st.integers(0, 1 << 50), str: st.text(), bool: st.booleans(), type(None): st.none()}[hint]


@settings(max_examples=300, deadline=None)
@given(st.one_of([values(fact) for fact in FACTS]))
def test_decode_of_encode_is_identity(fact):
    line = journal.line_of(3, type(fact).__name__.lower(), journal.to_json(fact), At("telemetry.jsonl", 7))
    record = journal._record(journal._checked(line))
    assert record == Record(fact, At("telemetry.jsonl", 7))
    assert type(record.fact) is type(fact)


SOME = [
    Step(1, 1, 5.0, 2.5, ranks=ranks_of([2.0, float("nan")]), shards=("a\n\u2028", "b")),
    Decision(1, 1, (Action(1, "lr", 1, 1, 1, cuts=(Cut(0.5, 3),), shards=("x",)),), "act", 6.0, "why"),
    Step(1, 2, nonfinite=("loss",)),
]


def write(path):
    with Journal(path, {"policy": "version: 1\n"}) as log:
        for fact in SOME:
            log.append(Record(fact, At("telemetry.jsonl", 9)))
    return path.read_bytes()


def test_a_journal_cut_at_any_byte_is_a_prefix_and_goes_on_from_there(tmp_path):
    whole = write(tmp_path / "journal.jsonl")
    for cut in range(len(whole)):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(whole[:cut])
        found = [record.fact for record in journal.read(path).records]
        assert found == SOME[: len(found)]
        assert len(found) == max(whole[:cut].count(b"\n") - 1, 0)
        with Journal(path, {"policy": "version: 1\n"}) as log:
            log.append(Record(Step(1, 99)))
        assert [record.fact for record in journal.read(path).records] == [*found, Step(1, 99)]


@pytest.mark.parametrize("line", [0, 1, 2])
def test_damage_before_the_end_is_said_and_nothing_is_changed(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    lines = write(path).splitlines(keepends=True)
    lines[line] = lines[line].replace(b"1", b"7", 1)
    path.write_bytes(b"".join(lines))
    before = path.read_bytes()
    with pytest.raises(RunDirError, match=rf"journal.jsonl:{line + 1}: .*damaged"):
        Journal(path, {})
    assert path.read_bytes() == before


def test_every_fact_has_its_own_tag():
    assert len(journal._TAGS) == len(FACTS) == len(typing.get_args(facts_module.Fact))
