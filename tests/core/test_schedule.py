"""When a checkpoint is due, asked step by step and asked for the next time."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.policy import Checkpoints, Denser, Phase, Policy
from orchestrator.core.schedule import checkpoint_due, next_checkpoint
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
