"""What a resume brought back that nobody ordered: another rate, another level, or the loss on another scale. Pure."""

from statistics import median

from orchestrator.core.effects import POINTS, alarm, answered
from orchestrator.core.facts import Step
from orchestrator.core.rules import Rules
from orchestrator.core.schedule import phase_factor, rate
from orchestrator.core.state import Attempt, Entry, State, attempt_of
from orchestrator.core.watch import rescaled

JUMP = 2.0  # a rate so many times off after a resume is no schedule
SETTLED, OVERLAP = 2, 8  # records after a launch that may be means of two; those compared with the attempt before
APART = 0.2  # of the old level: losses of the same steps that lie farther apart are not of the same weights
WHOLE = 0.03  # a ratio so close to a whole number is that number


def resumed(rules: Rules, state: State, point: Step) -> State:
    """The first records of an attempt, held against the attempt before."""
    attempt = attempt_of(state, state.attempt)
    if attempt is None:
        return state
    records = len(state.history.tail)
    if records == 1:
        return _rate_anew(rules, state, point)
    if records == SETTLED and state.levels.override:
        return _scale_anew(rules, state, point)
    return _level_anew(rules, state, attempt, point) if records == SETTLED + OVERLAP else state


def _rate_anew(rules: Rules, state: State, point: Step) -> State:
    """A rate that jumped at a resume although nothing was ordered: a warm-up begun again, a schedule lost."""
    ordered = any(o.action.id in state.unproved and o.action.verb == "lr" for o in state.actions)
    known = [e for e in state.before.between(point.step - 200, point.step) if e.lr]
    if ordered or not known or point.lr is None:
        return state
    wanted = (known[-1].lr or 0.0) * _planned(rules, point.step) / (_planned(rules, known[-1].step) or 1.0)
    if wanted / JUMP <= point.lr <= wanted * JUMP:
        return state
    detail = f"the rate went on with {point.lr:.4g} at step {point.step}, {wanted:.4g} was expected, nothing ordered"
    return alarm(state, "lr_mismatch", "medium", detail)


def _planned(rules: Rules, step: int) -> float:
    policy = rules.policy
    own = 1.0 if policy.schedule is None else rate(policy.schedule, step)
    return own * phase_factor(policy.phases, step)


def _scale_anew(rules: Rules, state: State, point: Step) -> State:
    """A loss that is a whole number of times the old one from the first record of an overridden command on.

    Such as the sum over accumulated batches where the mean was told before: the same weights, in another unit.
    """
    level, losses = state.watch.level, [entry.loss for entry in state.history.tail]
    factor = _whole([loss / level for loss in losses if loss is not None]) if level else None
    if factor is None or None in losses:
        return state
    times = f"{factor:.4g} times" if factor > 1.0 else f"1/{1.0 / factor:.4g} of"
    words = " ".join(state.levels.override)
    detail = f"the reporting scale changed with {words}: the loss is {times} the old level of {level:.4g}; rescaled"
    state = state._replace(watch=rescaled(rules, state.watch, factor))
    return alarm(state, "resume_mismatch", "info", detail)


def _whole(ratios: list[float]) -> float | None:
    """The whole number above one, or one over it, that all ratios are.

    >>> _whole([4.01, 3.97]), _whole([0.25, 0.249]), _whole([1.01, 1.0]), _whole([3.9, 3.5])
    (4.0, 0.25, None, None)
    """
    first = ratios[0] if ratios and ratios[0] > 0.0 else 1.0
    number = float(round(max(first, 1.0 / first)))
    factor = number if first > 1.0 else 1.0 / number
    return factor if number > 1.0 and all(abs(ratio - factor) <= WHOLE * factor for ratio in ratios) else None


def _level_anew(rules: Rules, state: State, attempt: Attempt, point: Step) -> State:
    """The same steps on the same weights lie on one level; what came after the trouble's onset is no measure."""
    onset = min((i.onset_low for i in state.incidents if i.attempt == attempt.number - 1 and i.above_low), default=None)
    known = {e.step: e for e in state.before.between(attempt.start_step, point.step)}
    pairs = [_losses(e, known) for e in state.history.tail[SETTLED:] if onset is None or e.step < onset]
    both = [pair for pair in pairs if pair is not None]
    if len(both) < POINTS:
        return state
    old, new = median(pair[0] for pair in both), median(pair[1] for pair in both)
    spread = median(abs(pair[0] - old) for pair in both)
    if abs(new - old) <= max(APART * abs(old), 8.0 * spread):
        return state
    if state.levels.override and old and _whole([new / old]) is not None:
        return state  # another unit, see _scale_anew
    detail = f"loss {new:.4g} after the resume, {old:.4g} at the same steps before: other weights, or other data"
    return answered(alarm(state, "resume_mismatch", rules.policy.failures.resume_mismatch.severity, detail))


def _losses(entry: Entry, before: dict[int, Entry]) -> tuple[float, float] | None:
    old = before.get(entry.step)
    return None if old is None or old.loss is None or entry.loss is None else (old.loss, entry.loss)
