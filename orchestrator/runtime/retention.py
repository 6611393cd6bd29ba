"""Which checkpoints the policy lets go of now: a pure question to the state, asked after every save.

Of the checkpoints that a run could go on from, the policy's `keep` chooses; the newest complete one and the
last healthy one always stay, as do those that an open incident may need, that this attempt began with, that a
decided action names, and that an operator pinned. Tainted ones are kept as long as an incident is open or no
healthy one stands beyond them, and go then.
"""

from collections.abc import Iterable

from orchestrator.checkpoints import Found
from orchestrator.checkpoints._retention import removable
from orchestrator.core.facts import Checkpoint
from orchestrator.core.health import health, targets
from orchestrator.core.rules import Rules
from orchestrator.core.state import Incident, State, attempt_of

REMOVED = "removed by retention"


def due(rules: Rules, state: State) -> list[Checkpoint]:
    """The checkpoints to remove, oldest first; none without `keep`, or where the policy only looks on."""
    keep = rules.policy.checkpoints.keep
    if keep is None or rules.policy.mode != "act" or state.proposed:
        return []
    words = {c.path: health(rules, state, c).health for c in state.checkpoints if c.state in ("saved", "corrupt")}
    usable = [c for c in state.checkpoints if words.get(c.path) in ("healthy", "provisional")]
    healthy = [c.path for c in usable if words[c.path] == "healthy"]
    needed = _needed(rules, state)
    gone = {
        found.path
        for found in removable(_found(usable), keep.last, keep.healthy, keep.every, healthy, needed)
    }  # fmt: skip
    beyond = max((c.step for c in usable if c.path in healthy), default=0)
    if not any(_threatens(incident) for incident in state.incidents):
        gone |= {c.path for c in state.checkpoints if words.get(c.path) in ("suspect", "bad") and c.step < beyond}
    return sorted((c for c in state.checkpoints if c.path in gone - needed), key=lambda c: (c.step, c.path))


def removed(checkpoint: Checkpoint, time: float) -> Checkpoint:
    """The fact that it is gone, journaled before it is: no decision names it from then on."""
    return checkpoint._replace(state="missing", why=REMOVED, time=time)


def left_over(state: State) -> list[Checkpoint]:
    """Those whose removal was journaled and may have been cut off by a crash; none while a launch is under way.

    Only steps that this attempt cannot save again: nothing may be taken from under a trainer that writes.
    """
    attempt = attempt_of(state, state.attempt)
    if attempt is None or state.pending:
        return []
    mine = [c for c in state.checkpoints if c.state == "missing" and c.why == REMOVED]
    return [c for c in mine if c.attempt == attempt.number or c.step <= attempt.start_step]


def _found(checkpoints: Iterable[Checkpoint]) -> list[Found]:
    return [Found(c.step, c.path, True) for c in checkpoints]


def _threatens(incident: Incident) -> bool:
    return incident.live and incident.above_low


def _needed(rules: Rules, state: State) -> set[str]:
    """Paths that something under way may still go back to."""
    needed = {o.action.path for o in state.actions if o.applied and o.status == "ordered"}
    needed |= {attempt.checkpoint for attempt in state.attempts[-1:]}
    needed |= {c.path for c in state.checkpoints if c.step in state.pins}
    for incident in state.incidents:
        if _threatens(incident):
            before = incident.onset_low - rules.policy.checkpoints.margin
            needed |= {target.path for target in targets(rules, state, before)[: _depth(rules, incident) + 1]}
    return needed


def _depth(rules: Rules, incident: Incident) -> int:
    """How many healthy checkpoints deep the ladder of an incident may go, one at least."""
    spike = getattr(rules.policy.spikes, incident.cls, None)
    return max((r.depth for rung in getattr(spike, "respond", ()) for r in rung if r.verb == "rollback"), default=1)
