"""From detector readings to one of the five spike classes.

Everything here follows one stream of steps: at most one excursion is open at a time, and every point
either belongs to it or to the healthy past. An excursion opens as what its first reading says, may be
promoted while it is open (CLASS_RANK never falls), and closes when the old level is back:

    high loss  -> isolated -> persistent (held for the confirm window) -> nonfinite
                           -> rank_local (one rank explains it)        -> nonfinite
    raised level -> persistent;   one odd rank -> rank_local;   NaN or Inf -> nonfinite
"""

import math
from statistics import median
from typing import Literal

from orchestrator.core.facts import Reading, Step, made
from orchestrator.core.planned import LR_STEPS, enter_phase, forgive, rate_seen
from orchestrator.core.policy import Persistent, Policy
from orchestrator.core.rules import Rules
from orchestrator.core.schedule import phase_at
from orchestrator.core.watch import CLASS_RANK, Change, Excursion, Lead, SpikeClass, Watch, rebase

QUIET_POINTS = 5  # so many points back at the old level end an excursion; a shorter dip does not split it
QUIET_STEPS = 50  # in a sparse log so many steps do
DOUBT = 0.1  # so far above the old level a record that was not flagged belongs to what follows
NEAR = 0.02  # so close to the old level is the old level
SPARSE_POINTS = 6  # in a sparse log a level is no fewer points, unless massive
SPARSE_FLAT = 0.2  # or one less, of which the newest three lie within so much of their height
MASSIVE, MASSIVE_STEPS = 0.4, 20  # a rise so high is a level after so few steps already
LEAD_RECORDS = 1  # a grad-norm excursion that ended at most so many records before belongs to the spike
LEAD_LONG = 10  # one of more records, or steps, is no herald
EVIDENCE = 8  # readings that are kept of an excursion
CONTEXT_STEPS = 1000  # what was said so many steps before may have to do with it
LEVEL_POINTS = 16  # points that a reading of a raised level stands for, at least
SMALL_PATIENCE = 2.5  # windows that a small rise must stand: shards of different difficulty are over by then
TAIL = 64  # points of an open excursion that are remembered
ACCEPT_POINTS = 4000  # an excursion that lasts so long without an answer is the new level


def observe(rules: Rules, watch: Watch, point: Step) -> tuple[Watch, tuple[Change | Reading, ...]]:
    """One step on: the next watch, and what changed by it; a reading among that is a fault of its own class."""
    phase = point.phase
    if phase is None and rules.policy.phases and (at := phase_at(rules.policy.phases, point.step)) is not None:
        phase = at.name  # a trainer that knows of no phases goes by the policy's
    if phase != watch.phase and phase is not None:
        watch = enter_phase(rules, watch, point.step, phase)
    if point.lr is not None and (point.step >= watch.rates[2] + LR_STEPS or point.lr > watch.rates[1]):
        watch = rate_seen(watch, point.lr, point.step)
    if watch.settle:
        return _settling(rules, watch, point)
    states = []
    readings: list[Reading] = []
    for (_, detector), state in zip(rules.detectors, watch.detectors, strict=True):
        after, reading = detector.update(state, point)
        states.append(after)
        if reading is not None:
            readings.append(reading)
    _, now, level, before, phase, grace, settle, lead, _, rates, switched, context = watch
    loss = point.loss
    if not readings and now is None:
        if loss is not None:
            level = loss if level is None else level + (loss - level) * 0.0625
        if grace is None:
            calm = tuple(states), None, level, point.step, phase, None, settle, lead, loss, rates, switched, context
            return made(Watch, calm), ()
    watch = watch._replace(detectors=tuple(states), level=level, last_step=point.step)
    watch, readings, faults = _aside(watch, readings)
    watch, readings = forgive(rules, watch, point, readings, before)
    watch, changes = _follow(rules, watch, point, readings, before)
    return watch._replace(previous=loss), (*changes, *(() if watch.open else faults))


def _aside(watch: Watch, readings: list[Reading]) -> tuple[Watch, list[Reading], list[Reading]]:
    """What neither opens nor prolongs an excursion is remembered, for one that may come; the rest; the faults."""
    aside = [reading for reading in readings if reading.kind in ("context", "fault")]
    if not aside:
        return watch, readings, aside
    said = {reading.detector for reading in aside}
    known = (*(reading for reading in watch.context if reading.detector not in said), *aside)
    now = watch.open and watch.open._replace(evidence=(*watch.open.evidence, *aside)[:EVIDENCE])
    rest = [reading for reading in readings if reading not in aside]
    return watch._replace(open=now, context=known), rest, [reading for reading in aside if reading.kind == "fault"]


def _settling(rules: Rules, watch: Watch, point: Step) -> tuple[Watch, tuple[Change | Reading, ...]]:
    """A record just after a launch: nothing is learned of it, and only what is not finite is seen."""
    seen = [
        detector.update(state, point)[1] for (_, detector), state in zip(rules.detectors, watch.detectors, strict=True)
    ]
    readings = [reading for reading in seen if reading is not None and reading.signal == "finite"]
    before = watch.last_step
    watch = watch._replace(last_step=point.step, settle=watch.settle - 1)
    return _follow(rules, watch, point, readings, before)


def _follow(
    rules: Rules, watch: Watch, point: Step, readings: list[Reading], before: int
) -> tuple[Watch, tuple[Change, ...]]:
    """The open excursion, or a new one, with this point."""
    reach = LEAD_RECORDS * max(point.step - before, 1)
    watch = watch._replace(lead=_lead(watch.lead, readings, point.step, reach))
    seen = [reading for reading in readings if reading.kind != "leading"]
    changes: list[Change] = []
    now, happened = watch.open, ""
    if now is not None and now.cls == "rank_local" and _class_of(seen) == "nonfinite":
        changes.append(Change("closed", now))  # the rank's trouble became everybody's: that is another one
        now = None
    if now is None:
        if not seen:
            return watch._replace(open=None), tuple(changes)
        now = _with_previous(_opened(seen, point, before, _leads(watch, point.step, reach)), watch.previous, before)
        now, happened = now._replace(evidence=(*now.evidence, *_near(watch.context, now.onset))), "opened"
    elif seen and (worse := _promoted(now, seen)).cls != now.cls:
        now, happened = worse, "promoted"
    now = _extended(now, point, seen)
    kinds: list[Literal["opened", "promoted", "confirmed", "closed"]] = []
    if happened:
        kinds.append("opened" if happened == "opened" else "promoted")
    if not now.confirmed and _confirmed(rules.policy, now, point):
        cls: SpikeClass = "persistent" if now.cls == "isolated" else now.cls
        now = now._replace(cls=cls, confirmed=True, excess=max(now.excess, _recent(now) - now.baseline))
        kinds.append("confirmed")
    over = _over(now, point)
    if over:
        if now.cls == "persistent" and not now.confirmed:
            now = now._replace(cls="isolated")  # it came back before it was a level
        kinds.append("closed")
        watch = rebase(rules, watch) if now.points >= ACCEPT_POINTS else watch._replace(lead=None)
    changes += [Change(kind, now) for kind in kinds]
    return watch._replace(open=None if over else now), tuple(changes)


def _lead(lead: Lead | None, readings: list[Reading], step: int, reach: int) -> Lead | None:
    """The newest excursion of what leads, one record on."""
    first = next((reading for reading in readings if reading.kind == "leading"), None)
    if first is None:
        return lead
    return Lead(lead.first, step, lead.records + 1) if lead and step - lead.last <= reach else Lead(first, step, 1)


def _leads(watch: Watch, step: int, reach: int) -> Reading | None:
    """The first reading of a short excursion of the grad norm that the one opening now belongs to."""
    lead = watch.lead
    if lead is None or step - lead.last > reach:
        return None
    return lead.first if lead.records <= LEAD_LONG and step - lead.first.step <= LEAD_LONG else None


def _near(context: tuple[Reading, ...], onset: int) -> tuple[Reading, ...]:
    return tuple(reading for reading in context if reading.step > onset - CONTEXT_STEPS)


def _class_of(readings: list[Reading]) -> SpikeClass:
    kinds = {reading.kind for reading in readings}
    if "nonfinite" in kinds:
        return "nonfinite"
    if "rank" in kinds:
        return "rank_local"
    return "persistent" if kinds == {"level"} else "isolated"


def _opened(readings: list[Reading], point: Step, before: int, lead: Reading | None) -> Excursion:
    cls = _class_of(readings)
    first = min(readings, key=lambda reading: reading.onset or reading.step)
    onset = first.onset if first.onset is not None else point.step
    evidence = tuple(readings)
    if lead is not None:
        onset, evidence = min(onset, lead.step), (*evidence, lead)
    loss = next((reading for reading in readings if reading.signal == "loss"), readings[0])
    rank = next((reading.rank for reading in readings if reading.rank is not None), None)
    low = min(onset, before + 1)
    return Excursion(
        cls, onset, low, point.step, loss.baseline, loss.spread, loss.threshold, evidence, rank=rank,
        last_bad=point.step, excess=loss.value - loss.baseline if loss.kind == "level" else 0.0,
        tail=(loss.value,) * LEVEL_POINTS if loss.kind == "level" else (),
        points=LEVEL_POINTS if loss.kind == "level" else 0,
    )  # fmt: skip


def _with_previous(now: Excursion, previous: float | None, before: int) -> Excursion:
    """The record before belongs to it where it stood out already, only not enough to be flagged."""
    if previous is None or now.cls != "isolated":
        return now
    if previous <= now.baseline + max(4.0 * now.spread, DOUBT * abs(now.baseline)):
        return now
    return now._replace(onset=min(now.onset, before), points=1, tail=(previous,))


def _promoted(now: Excursion, readings: list[Reading]) -> Excursion:
    cls = _class_of(readings)
    if cls == "persistent":  # a raised level is confirmed by its own rule
        return now
    if CLASS_RANK[cls] <= CLASS_RANK[now.cls] or (now.cls == "persistent" and cls == "rank_local"):
        return now
    rank = next((reading.rank for reading in readings if reading.rank is not None), now.rank)
    evidence = (*now.evidence, *readings)[-EVIDENCE:]
    return now._replace(cls=cls, rank=rank, evidence=evidence, confirmed=False)


def _extended(now: Excursion, point: Step, seen: list[Reading]) -> Excursion:
    """The excursion with one more point: is it still bad, how high, how long."""
    loss, bad = point.loss, bool(seen)
    if now.cls in ("isolated", "persistent") and loss is not None:
        bad = loss > _line(now) or any(reading.kind != "level" for reading in seen)
    peak, peak_step = now.peak, now.peak_step
    if loss is not None and (peak is None or loss > peak):
        peak, peak_step = loss, point.step
    nonfinite = any(reading.kind == "nonfinite" for reading in seen)
    return now._replace(
        peak=peak,
        peak_step=peak_step,
        points=now.points + 1,
        quiet=0 if bad else now.quiet + 1,
        last_bad=point.step if bad else now.last_bad,
        tail=now.tail if loss is None else (*now.tail[1 - TAIL :], loss),
        bad_steps=(*now.bad_steps[-15:], point.step) if nonfinite else now.bad_steps,
        skipped=now.skipped and (point.skipped or not nonfinite),
    )


def _line(now: Excursion) -> float:
    """Below this a single point counts as back at the old level."""
    return now.baseline + max(4.0 * now.spread, 0.25 * (now.threshold - now.baseline))


def _confirmed(policy: Policy, now: Excursion, point: Step) -> bool:
    confirm = policy.spikes.persistent.confirm
    if now.cls == "nonfinite":
        skips = policy.spikes.nonfinite.skips
        recent = [step for step in now.bad_steps if step > point.step - skips.per]
        return not now.skipped or len(recent) > skips.max
    if now.cls == "rank_local":
        return now.points >= confirm.points
    lasted = point.step - now.onset
    by_level = now.evidence[0].kind == "level"
    if now.points < confirm.points or (now.quiet and not by_level) or lasted < min(confirm.for_, MASSIVE_STEPS):
        return False
    enough = SPARSE_POINTS - _flat(now)
    if by_level and lasted < SMALL_PATIENCE * confirm.for_ and now.height < policy.spikes.persistent.minor.below:
        return False
    if lasted < confirm.for_ or (now.points < enough and lasted > confirm.for_ * confirm.points):
        return _massive(now)
    return _raised(policy.spikes.persistent, now)


def _flat(now: Excursion) -> bool:
    """Whether the newest three points stand on a level of their own, well above the old one."""
    newest = now.tail[-3:]
    return len(newest) == 3 and max(newest) - min(newest) < SPARSE_FLAT * (min(newest) - now.baseline)


def _massive(now: Excursion) -> bool:
    """So high, and not on its way back, that no more waiting is needed."""
    if now.peak is None or not now.tail:
        return False
    high = _recent(now) > now.baseline + MASSIVE * abs(now.baseline)
    return high and now.quiet == 0 and now.tail[-1] > now.baseline + 0.6 * (now.peak - now.baseline)


def _recent(now: Excursion) -> float:
    """The level of the newest half of the points, at least three."""
    return median(now.tail[-max(3, len(now.tail) // 2) :]) if now.tail else now.baseline


def _raised(persistent: Persistent, now: Excursion) -> bool:
    """Whether all remembered points, and their newest half, stand above the old level by more than noise."""
    newest = now.tail[-max(3, len(now.tail) // 2) :]
    return bool(newest) and all(_stands(persistent, now, points) for points in (newest, now.tail))


def _stands(persistent: Persistent, now: Excursion, points: tuple[float, ...]) -> bool:
    level = median(points)
    scatter = 1.4826 * median(tuple(abs(value - level) for value in points))
    noise = 3.0 * max(now.spread, scatter) / math.sqrt(len(points))
    return level > now.baseline + max(persistent.confirm.above * abs(now.baseline), noise)


def _over(now: Excursion, point: Step) -> bool:
    """Whether the old level is back, or has been given up."""
    if now.points >= ACCEPT_POINTS:
        return True
    if now.cls == "persistent":
        return _back(now)
    return now.quiet >= QUIET_POINTS or (now.quiet > 0 and point.step - now.last_bad >= QUIET_STEPS)


def _back(now: Excursion) -> bool:
    """Whether the old level is back (not merely a lower one), over as many points as the noise asks for."""
    excess = now.excess or now.threshold - now.baseline
    near = min(0.5 * excess, max(NEAR * abs(now.baseline), 2.0 * now.spread))
    count = int(min(max((7.0 * now.spread / near) ** 2 if near > 0.0 else TAIL, QUIET_POINTS), TAIL))
    return len(now.tail) >= count and median(now.tail[-count:]) <= now.baseline + near
