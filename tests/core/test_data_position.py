"""K16: a resume that reads its data from the beginning again."""

import pytest

from orchestrator import registry
from orchestrator.core.evolve import evolve
from orchestrator.core.facts import Checkpoint, Launched, Step
from orchestrator.core.state import State, first
from tests.simulation import policy

RULES = registry.bind(policy())


def after(
    second: dict[int, dict[str, object]], tokens: bool = True, shards: bool = True, start: int = 500, to: int = 800
) -> State:
    """Attempt 1 read ten steps a shard up to `to`; attempt 2 resumed at `start` and told `second` by step."""
    state = evolve(RULES, first(RULES), Launched(1, 0, "", "here", 1, 0.0))
    for step in range(1, to + 1):
        state = evolve(RULES, state, told(1, step, step, tokens, shards))
        if step == start:
            state = evolve(RULES, state, Checkpoint(1, step, "ck", "saved"))
    state = evolve(RULES, state, Launched(2, start, "ck", "here", 2, 1e4))
    for step, values in second.items():
        state = evolve(RULES, state, told(2, step, step, tokens, shards)._replace(**values))
    return state


def told(attempt: int, step: int, read: int, tokens: bool, shards: bool) -> Step:
    names = (f"shard-{read // 10}",) if shards else ()
    seen = 1e5 * read if tokens else None
    return Step(attempt, step, float(step), loss=2.0, grad_norm=1.0, lr=1e-3, shards=names, tokens_seen=seen)


def replayed(state: State) -> list[str]:
    return [incident.reason for incident in state.incidents if incident.cls == "data_replayed"]


def test_tokens_that_begin_anew_are_an_incident():
    second = {501 + i: {"tokens_seen": 1e5 * i, "shards": ()} for i in range(5)}
    (why,) = replayed(after(second, shards=False))
    assert why == "2e+05 tokens seen at step 503, 5e+07 were at step 500"


def test_the_first_shard_again_is_an_incident():
    second = {501 + i: {"shards": ("shard-0",)} for i in range(5)}
    (why,) = replayed(after(second, tokens=False))
    assert why == "shard-0 at step 503 was read long before step 500"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"shards": ("shard-55",)},  # a quarantined shard left out: what follows comes earlier
        {"shards": ("another-1",)},
        {"tokens_seen": 7e7},
        {"tokens_seen": None, "shards": ()},
    ],
    ids=["as before", "shifted", "never read", "a larger batch", "nothing told"],
)
def test_what_goes_on_where_it_was_is_none(values: dict[str, object]):
    assert replayed(after({501 + i: values for i in range(5)})) == []


def test_one_odd_record_is_none():
    assert replayed(after({501: {"shards": ("shard-0",)}, 502: {}, 503: {}, 504: {}}, tokens=False)) == []


def test_after_a_crash_at_the_checkpoint_nothing_tells_what_comes_next():
    second = {501 + i: {"shards": ("shard-0",)} for i in range(5)}
    assert replayed(after(second, tokens=False, to=500)) == []


def test_it_is_said_once_and_a_fresh_start_replays_nothing():
    second = {501 + i: {"tokens_seen": 1e5 * i} for i in range(30)}
    assert len(replayed(after(second))) == 1
    assert replayed(after({i: {} for i in range(1, 6)}, start=0)) == []
