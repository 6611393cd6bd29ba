"""From one fact to the next state. Pure: the same state and fact give the same state, always.

One function a kind of fact, in the files this one imports; the steps' own road is here and must stay cheap.
"""

from collections.abc import Callable
from typing import Any

from orchestrator.core.classify import observe
from orchestrator.core.effects import apart, check, followed
from orchestrator.core.facts import (
    Announced,
    Checkpoint,
    Decision,
    Ended,
    Eval,
    Exited,
    Fact,
    Launched,
    Order,
    Outcome,
    Reading,
    Room,
    Step,
    Supervised,
    Tick,
    made,
)  # fmt: skip
from orchestrator.core.incidents import changed, explained, fault, probation
from orchestrator.core.lifecycle import announced, checkpoint_seen, ended, evaluated, exited, launched, supervised, tick
from orchestrator.core.ordered import decision, outcome
from orchestrator.core.orders import order, room
from orchestrator.core.position import asked
from orchestrator.core.resumes import resumed
from orchestrator.core.rules import Rules
from orchestrator.core.state import (
    BATCHES,
    Entry,
    Read,
    State,
    first,
    hot,
    stepped,
)  # fmt: skip


def evolve(rules: Rules, state: State, fact: Fact) -> State:
    """The state after one more fact."""
    return _ROADS[type(fact)](rules, state, fact)


def fold(rules: Rules, facts: list[Fact]) -> State:
    """The state after all facts from the first: how a journal is recovered."""
    state = first(rules)
    for fact in facts:
        state = evolve(rules, state, fact)
    return state


def _step(rules: Rules, state: State, point: Step) -> State:
    known = state.incidents
    if point.attempt != state.attempt:
        if point.attempt < state.attempt:
            return state
        state = launched(rules, state, Launched(point.attempt, point.step - 1, "", "", 0, point.time))
    watch, last, frontier, time, moved, pace, history = hot(state)
    step, now = point.step, point.time
    if moved is None:
        moved = now
    elif step <= last:
        return state  # a resumed trainer logs a step twice
    watch, changes = observe(rules, watch, point)
    if now - moved > pace:
        pace = now - moved
    history = history.add(made(Entry, (step, point.lr, point.shards, point.tokens_seen, point.loss)))
    state = stepped(
        state,
        (watch, step, max(frontier, step), max(time, now), max(moved, now), pace, history),
    )
    if point.batch is not None:
        state = state._replace(batches=(*state.batches[1 - BATCHES :], Read(step, point.batch)))
    if state.unproved:
        state = check(rules, state, point)
    if state.attempt > 1 and not state.history.chunks:
        state = resumed(rules, state, point)
    if rules.planned:
        state = followed(rules, state, point)
    if state.looks:
        state = asked(state, point)
    if point.replicas_odd:
        state = apart(rules, state, point)
    for change in changes:
        state = fault(state, point, change) if isinstance(change, Reading) else changed(rules, state, point, change)
    if changes:
        state = explained(rules, state, known)
    return probation(rules, state) if state.current is None and state.incidents else state


_ROADS: dict[type, Callable[[Rules, State, Any], State]] = {
    Step: _step, Eval: evaluated, Checkpoint: checkpoint_seen, Announced: announced, Ended: ended, Launched: launched,
    Exited: exited, Tick: tick, Supervised: supervised, Order: order, Decision: decision, Outcome: outcome,
    Room: room,
}  # fmt: skip
