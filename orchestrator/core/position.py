"""Whether a resumed run goes on where its data had got to, or reads them a second time. Pure.

Two witnesses, asked at the first records after a launch: the tokens seen so far, which must not fall behind what
they were at the checkpoint; and the shards read, which must not be ones from long before it where the attempt
before read others at the same steps.
"""

from orchestrator.core.facts import Step
from orchestrator.core.state import Incident, State, attempt_of, put

LOOKS = 3  # records after a launch that are asked; all of them must agree
NEAR = 64  # steps around a checkpoint whose shards prove nothing: workers read ahead, quarantine shifts
SHORT = 0.99  # of the tokens at the checkpoint: rounding is no loss


def asked(state: State, point: Step) -> State:
    """The state after one of the first records of an attempt; on the last of them perhaps with an incident."""
    attempt = attempt_of(state, point.attempt)
    if attempt is None or attempt.start_step <= 0:
        return state._replace(looks=0)
    why = _tokens(state, point, attempt.start_step) or _shards(state, point, attempt.start_step)
    left = state.looks - 1 if why else 0
    if left or not why:
        return state._replace(looks=left)
    number = state.incidents[-1].id + 1 if state.incidents else 1
    first = attempt.start_step + 1
    replayed = Incident(
        number, "data_replayed", "high", state.attempt, first, first, point.step, "closed", state.frontier,
        end=point.step, reason=why, shards=point.shards,
    )  # fmt: skip
    return put(state._replace(looks=0), replayed)


def _tokens(state: State, point: Step, start: int) -> str:
    known = [entry.seen for entry in state.before.between(start, start) if entry.seen is not None]
    if not known or point.tokens_seen is None or point.tokens_seen >= SHORT * known[-1]:
        return ""
    return f"{point.tokens_seen:.4g} tokens seen at step {point.step}, {known[-1]:.4g} were at step {start}"


def _shards(state: State, point: Step, start: int) -> str:
    there = state.before.between(start - NEAR, point.step + NEAR)
    beyond = any(entry.step >= point.step and entry.shards for entry in there)
    if not point.shards or not beyond or set(point.shards) & {shard for entry in there for shard in entry.shards}:
        return ""
    old = {shard for entry in state.before.between(0, start - NEAR - 1) for shard in entry.shards}
    if not set(point.shards) <= old:
        return ""
    return f"{', '.join(point.shards)} at step {point.step} was read long before step {start}"
