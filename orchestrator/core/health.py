"""A checkpoint's health: a pure question to the facts, asked anew each time, so it is retroactive.

candidate    seen, not complete
provisional  complete; not yet proved
healthy      `healthy_after` steps on its branch without an incident above low severity
suspect      inside an incident's reach, or on a branch that a rollback left
bad          after NaN in the weights, or corrupt
missing      gone
"""

from typing import Literal, NamedTuple, TypeAlias

from orchestrator.core.facts import Checkpoint
from orchestrator.core.rules import Rules
from orchestrator.core.state import FAILURES, Incident, State, attempt_of, branch

Health: TypeAlias = Literal["candidate", "provisional", "healthy", "suspect", "bad", "missing"]


class Verdict(NamedTuple):
    """A word and the reason for it."""

    health: Health
    reason: str


def health(rules: Rules, state: State, checkpoint: Checkpoint) -> Verdict:
    """How far a checkpoint can be trusted, by all that is known now."""
    if checkpoint.state in ("started", "failed"):
        return Verdict("candidate", checkpoint.why or "its save is not complete")
    if checkpoint.state == "missing":
        return Verdict("missing", checkpoint.why or "it is gone")
    if checkpoint.state == "corrupt":
        return Verdict("bad", checkpoint.why or "it is corrupt")
    saving = rules.policy.checkpoints
    for incident in state.incidents:
        if (verdict := _tainted(incident, checkpoint, saving.margin)) is not None:
            return verdict
    reach = branch(state)
    if checkpoint.attempt not in reach or checkpoint.step > reach[checkpoint.attempt]:
        return Verdict("suspect", "on a branch that a rollback left")
    if (leaving := _left_by(state, checkpoint)) is not None:
        return Verdict("suspect", f"a rollback to step {leaving} is leaving it")
    if (worse := _worse(state, checkpoint, saving.eval_worse)) is not None:
        return Verdict("suspect", worse)
    if (other := _poorer(state, checkpoint)) is not None:
        return Verdict("suspect", f"it holds no optimizer, which the checkpoint of step {other} does")
    clean = _clean(state, checkpoint, reach)
    if clean < saving.healthy_after:
        return Verdict("provisional", f"{clean} of {saving.healthy_after} clean steps after it")
    return Verdict("healthy", f"{clean} steps after it without an incident above low severity")


def _clean(state: State, checkpoint: Checkpoint, reach: dict[int, int]) -> int:
    """The most clean steps that ever followed it: in its own attempt, or on the branch that is current."""
    own = attempt_of(state, checkpoint.attempt)
    ends = [own.reached if own else state.step, *(taint.onset_low for taint in _after(state, checkpoint, {}))]
    here = [state.step, *(taint.onset_low for taint in _after(state, checkpoint, reach))]
    return max(min(ends), min(here), checkpoint.step) - checkpoint.step


def _after(state: State, checkpoint: Checkpoint, reach: dict[int, int]) -> list[Incident]:
    """Incidents that taint and began after a checkpoint: on a branch, or (without one) in its own attempt."""
    reach = reach or {checkpoint.attempt: 1 << 62}
    taints = [i for i in state.incidents if i.merged is None and i.above_low and i.cls not in FAILURES]
    return [i for i in taints if i.onset > checkpoint.step and i.onset <= reach.get(i.attempt, -1)]


def _tainted(incident: Incident, checkpoint: Checkpoint, margin: int) -> Verdict | None:
    if incident.merged is not None or not incident.above_low or incident.cls in FAILURES:
        return None
    if incident.attempt != checkpoint.attempt or checkpoint.step < incident.onset_low - margin:
        return None
    name = f"incident {incident.id} ({incident.cls})"
    if incident.cls == "nonfinite" and checkpoint.step >= incident.onset:
        return Verdict("bad", f"saved after {name} began at step {incident.onset}")
    if incident.end is not None and checkpoint.step > incident.end:
        return None
    return Verdict("suspect", f"within reach of {name}, onset {incident.onset}")


def _worse(state: State, checkpoint: Checkpoint, worse: float) -> str | None:
    """Whether the first evaluation at or after it is clearly worse than the best before it."""
    for name in {evaluated for evaluated, *_ in state.evals}:
        mine = [(step, v) for n, a, step, v in state.evals if n == name and a == checkpoint.attempt and v is not None]
        after = [(step, v) for step, v in mine if step >= checkpoint.step]
        before = [v for step, v in mine if step < checkpoint.step]
        if after and before and after[0][1] > min(before) + worse * abs(min(before)):
            return f"evaluation {name} {after[0][1]:.4g} at step {after[0][0]} after {min(before):.4g} before"
    return None


def _left_by(state: State, checkpoint: Checkpoint) -> int | None:
    """Where a rollback goes that is under way and leaves this one behind, whatever else the old attempt still tells."""
    for ordered in state.actions[-16:]:
        action = ordered.action
        if action.verb != "rollback" or not ordered.applied or ordered.status not in ("ordered", "done"):
            continue
        if action.attempt == checkpoint.attempt == state.attempt and checkpoint.step > (action.to_step or 0):
            return action.to_step or 0
    return None


def _poorer(state: State, checkpoint: Checkpoint) -> int | None:
    """The step of another complete checkpoint that holds the optimizer's state, where this one does not.

    Where none does, that is the trainer's way.
    """
    if "optimizer" not in checkpoint.lacks:
        return None
    return next((c.step for c in state.checkpoints if c.state == "saved" and "optimizer" not in c.lacks), None)


class Target(NamedTuple):
    """Where a rollback goes: step 0 with an empty path is a fresh start."""

    step: int
    path: str
    why: str


def targets(rules: Rules, state: State, before: int) -> tuple[Target, ...]:
    """Every step that a rollback to `before` or earlier may go to, newest first; a fresh start is the last."""
    found = [
        Target(checkpoint.step, checkpoint.path, verdict.reason)
        for checkpoint in state.checkpoints
        if checkpoint.step <= before and (verdict := health(rules, state, checkpoint)).health == "healthy"
    ]
    return (*sorted(found, key=lambda target: -target.step), Target(0, "", "a fresh start"))


def newest_complete(rules: Rules, state: State) -> Target:
    """Where a relaunch after a failure goes: the newest complete checkpoint on the branch that is not tainted.

    An excursion that the failure cut short may have become anything: what was saved in it is passed over.
    """
    reach = branch(state)
    open_ = [
        (i.attempt, i.onset_low) for i in state.incidents if i.cut or (i.stage == "open" and i.cls not in FAILURES)
    ]
    usable = [
        checkpoint
        for checkpoint in state.checkpoints
        if checkpoint.state == "saved"
        and checkpoint.attempt in reach
        and checkpoint.step <= reach[checkpoint.attempt]
        and health(rules, state, checkpoint).health in ("healthy", "provisional")
        and not any(attempt == checkpoint.attempt and checkpoint.step >= onset for attempt, onset in open_)
    ]
    best = max(usable, key=lambda checkpoint: (checkpoint.step, checkpoint.attempt), default=None)
    return Target(best.step, best.path, "the newest complete one") if best else Target(0, "", "a fresh start")
