"""When a checkpoint is due and when the rate is given back, asked step by step and asked for the next time."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.facts import Cut
from orchestrator.core.policy import Checkpoints, Denser, Phase, Policy
from orchestrator.core.schedule import checkpoint_due, lr_scale, next_checkpoint, next_scale
from orchestrator.core.units import Cadence

policies = st.builds(
    lambda every, before, dense, end: replace(
        Policy(),
        phases={"a": Phase(until=end), "b": Phase()},
        checkpoints=Checkpoints(every=Cadence(every, "steps"), before_phase_switch=before, after_incident=dense),
    ),
    st.integers(1, 70).map(float),
    st.booleans(),
    st.none() | st.builds(lambda every, most: Denser(every=every, for_=most), st.integers(1, 20), st.integers(1, 99)),
    st.integers(1, 150),
)


@settings(max_examples=300, deadline=None)
@given(policies, st.integers(0, 200), st.integers(0, 220))
def test_the_next_checkpoint_is_the_first_later_step_at_which_one_is_due(
    policy: Policy, step: int, dense_until: int
) -> None:
    due = (later for later in range(step + 1, step + 300) if checkpoint_due(policy, later, step, dense_until))
    assert next_checkpoint(policy, step, dense_until) == next(due, None)


cuts = st.lists(
    st.builds(
        Cut, st.sampled_from((0.25, 0.5, 0.7)), st.integers(0, 60), st.none() | st.integers(0, 40), st.integers(0, 30)
    ),
    max_size=3,
)


@settings(max_examples=300, deadline=None)
@given(cuts, st.integers(0, 150))
def test_the_scale_stays_until_the_step_at_which_it_is_said_to_move(given_back: list[Cut], step: int) -> None:
    moves = next_scale(given_back, step)
    now = lr_scale(given_back, step)
    same = range(step, moves if moves is not None else step + 200)
    assert all(lr_scale(given_back, later) == now for later in same)
    assert moves is None or lr_scale(given_back, moves) != now
