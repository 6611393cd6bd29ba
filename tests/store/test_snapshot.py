"""A snapshot is the state it was made of, and counts only where nothing before it changed."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import registry
from orchestrator.core.evolve import evolve
from orchestrator.core.facts import Step
from orchestrator.core.state import first
from orchestrator.store import journal, snapshot
from orchestrator.store.journal import START, At, Journal, Mark, Record
from orchestrator.store.snapshot import Snapshot, from_plain, to_plain
from tests.simulation import policy, simulate


def level(attempt, step):
    return {"loss": 6.0} if attempt == 1 and step >= 120 else None


@pytest.fixture(scope="module")
def whole():
    """A run with a rollback, told to its end."""
    return simulate(policy(), level)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1))
def test_decode_of_encode_is_identity_at_every_point_of_a_run(whole, share):
    rules = registry.bind(policy())
    state = first(rules)
    for fact in whole.facts[: int(share * len(whole.facts))]:
        state = evolve(rules, state, fact)
    assert from_plain(msgspec.json.decode(msgspec.json.encode(to_plain(state)))) == state


def test_infinite_numbers_and_kinds_of_numbers_survive():
    value = (float("inf"), -float("inf"), 1, 1.0, True, None, "x", ((), (0,)))
    again = from_plain(msgspec.json.decode(msgspec.json.encode(to_plain(value))))
    assert again == value
    assert [type(item) for item in again] == [type(item) for item in value]


@pytest.mark.parametrize(
    "name", ["os:system", "orchestrator.core.policy:Policy", "builtins:tuple", "orchestrator.core.state:first"]
)
def test_nothing_but_the_cores_own_tuples_is_made(name):
    with pytest.raises(ValueError, match="no part of a state"):
        from_plain({"is": name, "of": []})


def test_what_is_no_state_is_not_saved():
    with pytest.raises(TypeError, match="list is no part of a state"):
        to_plain(([],))


@pytest.fixture
def saved(tmp_path, whole):
    made = Snapshot(Mark(3, 99, 7), "d1g", "version: 1\n", {1: (500, 2)}, whole.state)
    snapshot.save(tmp_path / "snapshot.json", made)
    return tmp_path / "snapshot.json", made


def test_what_was_saved_is_loaded(saved):
    path, made = saved
    assert snapshot.load(path) == made


@pytest.mark.parametrize("change", [("code", "older"), ("state", None), ("mark", [1]), ("read_to", 5)])
def test_what_does_not_fit_is_passed_over(saved, change):
    path, _ = saved
    body = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**body, change[0]: change[1]}))
    assert snapshot.load(path) is None


def test_no_snapshot_and_a_torn_one_are_none(tmp_path):
    assert snapshot.load(tmp_path / "none.json") is None
    (tmp_path / "torn.json").write_text('{"code": "')
    assert snapshot.load(tmp_path / "torn.json") is None


def journal_of(path, steps=20):
    with Journal(path, {"policy": "version: 1\n"}) as log:
        marks = [log.end]
        for step in range(1, steps + 1):
            log.append(Record(Step(1, step, loss=1.0), At("telemetry.jsonl", step)))
            marks.append(log.end)
    return marks


def test_a_journal_is_read_on_from_a_mark(tmp_path):
    path = tmp_path / "journal.jsonl"
    marks = journal_of(path)
    for number, mark in enumerate(marks):
        contents = journal.read(path, mark)
        assert contents.begin == mark
        assert [record.fact.step for record in contents.records] == list(range(number + 1, 21))
        assert contents.end == marks[-1]


def test_a_mark_that_does_not_fit_is_no_mark(tmp_path):
    path = tmp_path / "journal.jsonl"
    mark = journal_of(path)[10]
    for wrong in (mark._replace(crc=1), mark._replace(size=mark.size + 10_000_000)):
        contents = journal.read(path, wrong)
        assert (contents.begin, len(contents.records)) == (START, 20)


def test_a_reopened_journal_goes_on_with_the_right_mark(tmp_path):
    path = tmp_path / "journal.jsonl"
    mark = journal_of(path)[10]
    with Journal(path, {}, mark) as log:
        assert len(log.recovered) == 10
        log.append(Record(Step(1, 21)))
        end = log.end
    assert journal.read(path).end == end
