"""What a planned change forgives: a new data phase, a rising rate. Pure.

The detectors learn anew, and for some steps a bounded rise above the old level is passed over; more, or a rise that
lasts, is trouble all the same.
"""

from orchestrator.core.facts import Reading, Step
from orchestrator.core.rules import Rules
from orchestrator.core.schedule import phase_at
from orchestrator.core.watch import Grace, Watch, rebase

LR_RISE, LR_STEPS = 0.15, 100  # the rate is rising when it did so much over so many steps
LR_FORGIVEN, LR_GRACE = 0.1, 200  # what that may raise the loss by, and for how many steps after it


def rate_seen(watch: Watch, lr: float, step: int) -> Watch:
    """Keep marks of the rate, and forgive a bounded rise of the loss while it rises and for some steps after.

    The marks are LR_STEPS apart; a run's first marks have nothing before them, so a warm-up's first steps count.
    """
    before, last, at = watch.rates
    if step >= at + LR_STEPS:
        before, last, at = last, lr, step
    rising = lr > max(before, 0.0) * (1.0 + LR_RISE) and (before > 0.0 or step <= 2 * LR_STEPS)
    watch = watch._replace(rates=(before, last, at))
    if not rising or watch.level is None or watch.open is not None:
        return watch
    grace = watch.grace or Grace(0, 0, watch.level, LR_FORGIVEN, follows=True)
    return watch._replace(grace=grace._replace(until=max(grace.until, step + LR_GRACE)))


def enter_phase(rules: Rules, watch: Watch, step: int, name: str) -> Watch:
    """A data phase began: the detectors learn anew, and a bounded rise is forgiven for its grace."""
    first = watch.phase is None
    watch = watch._replace(phase=name, switched=0 if first else step)
    if first or watch.level is None:
        return watch
    phase = rules.policy.phases.get(name)
    at = phase_at(rules.policy.phases, step)
    phase = phase or (at.phase if at else None)
    grace, rise = (phase.grace, phase.rise) if phase else (200, 0.5)
    return rebase(rules, watch)._replace(grace=Grace(step + grace, 20, watch.level, rise, used=True))


def forgive(
    rules: Rules, watch: Watch, point: Step, readings: list[Reading], before: int
) -> tuple[Watch, list[Reading]]:
    """Within a grace what stays below the forgiven rise is passed over; the detectors then learn anew."""
    grace = watch.grace
    if grace is None:
        return watch, readings
    if grace.follows and watch.level is not None and watch.level < grace.level:
        grace = grace._replace(level=watch.level)
    limit = grace.level + grace.rise * abs(grace.level)
    kept = [r for r in readings if r.kind not in ("high", "level") or r.value > limit]
    if len(kept) < len(readings) and not grace.used:
        watch, grace = rebase(rules, watch), grace._replace(used=True)
    if point.loss is not None:
        grace = grace._replace(points=grace.points - 1, tail=(*grace.tail[-2:], point.loss))
        if len(grace.tail) == 3 and min(grace.tail) > limit and not kept:
            seen = Reading("grace", "loss", "level", point.step, point.loss, grace.level, limit, onset=before)
            return watch._replace(grace=None), [seen]
    over = point.step > grace.until and grace.points <= 0
    return watch._replace(grace=None if over else grace), kept
