"""The learning rate, clip and checkpoint cadence as functions of step and phase.

The supervisor, the trainer's hook and the review commands all evaluate these same functions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from orchestrator.core.facts import Cut
from orchestrator.core.policy import (
    Adaptive,
    Checkpoints,
    Clip,
    Decay,
    Denser,
    Keep,
    Phase,
    Policy,
    Saturated,
    Schedule,
    Warmup,
)  # fmt: skip
from orchestrator.core.units import Cadence


def rate(schedule: Schedule, step: int) -> float:
    """The learning rate that the update to `step` uses (the first update is step 1).

    >>> from orchestrator.core.policy import Warmup
    >>> rate(Schedule(peak=0.1, warmup=Warmup(for_=10)), 5)
    0.05
    """
    warm, decay = schedule.warmup, schedule.decay
    begin = warm.for_ if warm else 0
    if warm and step < begin:
        return schedule.peak * (warm.from_ + (1.0 - warm.from_) * step / begin)
    if decay is None or decay.shape == "constant":
        return schedule.peak
    done = min(max((step - begin) / max(decay.until - begin, 1), 0.0), 1.0)
    left = 0.5 * (1.0 + math.cos(math.pi * done)) if decay.shape == "cosine" else 1.0 - done
    return schedule.peak * (decay.to + (1.0 - decay.to) * left)


class PhaseAt(NamedTuple):
    """The phase in force at a step and the step it began after."""

    name: str
    since: int
    phase: Phase


def phase_at(phases: Mapping[str, Phase], step: int) -> PhaseAt | None:
    """The phase of the update to `step`; None without phases, the last one after all have ended."""
    since, found = 0, None
    for name, phase in phases.items():
        found = PhaseAt(name, since, phase)
        if phase.until is None or step <= phase.until:
            break
        since = phase.until
    return found


def phase_factor(phases: Mapping[str, Phase], step: int) -> float:
    """What the phase makes of the rate: its cut, reached by a linear re-warm-up from nothing.

    >>> phase_factor({"a": Phase(until=10), "b": Phase(lr=0.5, rewarm=10)}, 15)
    0.25
    """
    at = phase_at(phases, step)
    if at is None:
        return 1.0
    warm = 1.0 if not at.phase.rewarm else min((step - at.since) / at.phase.rewarm, 1.0)
    return at.phase.lr * warm


def lr_scale(cuts: Sequence[Cut], step: int) -> float:
    """The product of the incident cuts in force at a step, each given back as it says.

    >>> lr_scale([Cut(0.5, step=100, after=10, over=10)], 115)
    0.75
    """
    scale = 1.0
    for cut in cuts:
        back = 0.0
        if cut.after is not None:
            back = min(max((step - cut.step - cut.after) / max(cut.over or 1, 1), 0.0), 1.0)
        scale *= cut.factor + (1.0 - cut.factor) * back
    return scale


def next_scale(cuts: Sequence[Cut], step: int) -> int | None:
    """The first step after `step` at which `lr_scale` may differ from what it is at `step`; None for never.

    >>> next_scale([Cut(0.5, step=100, after=10, over=5)], 3), next_scale([Cut(0.5, step=100, after=10, over=5)], 115)
    (111, None)
    """
    found = []
    for cut in cuts:
        if cut.after is not None:
            begin = cut.step + cut.after
            found += [max(step, begin) + 1] if step < begin + max(cut.over or 1, 1) else []
    return min(found, default=None)


def clip_at(policy: Policy, step: int, scale: float = 1.0) -> float | None:
    """The gradient-norm limit at a step: the phase's own or the policy's, times the incidents' scale."""
    at = phase_at(policy.phases, step)
    limit = at.phase.clip if at and at.phase.clip is not None else policy.clip.max_norm
    return None if limit is None else limit * scale


def switches(phases: Mapping[str, Phase]) -> tuple[int, ...]:
    """The last step of every phase that another follows."""
    ends = [phase.until for phase in phases.values()][:-1]
    return tuple(end for end in ends if end is not None)


def checkpoint_due(policy: Policy, step: int, last: int, dense_until: int = 0, every: int | None = None) -> bool:
    """Whether a cadence counted in steps wants a checkpoint at `step`, the newest one being `last`.

    `every` stands in for the policy's own number where that is measured or counted in something else.
    """
    if step <= last:
        return False
    saving = policy.checkpoints
    if saving.before_phase_switch and step in switches(policy.phases):
        return True
    dense = saving.after_incident
    if dense is not None and step <= dense_until and step % dense.every == 0:
        return True
    regular = every if every is not None else int(saving.every.value) if saving.every.unit == "steps" else 0
    return regular > 0 and step % regular == 0


def next_checkpoint(policy: Policy, step: int, dense_until: int = 0) -> int | None:
    """The first step after `step` that a cadence counted in steps wants saved, `step` having been; None for never."""
    saving = policy.checkpoints
    found = [end for end in switches(policy.phases) if end > step] if saving.before_phase_switch else []
    if saving.every.unit == "steps" and (regular := int(saving.every.value)):
        found.append(step + regular - step % regular)
    if saving.after_incident is not None:
        dense = step + saving.after_incident.every - step % saving.after_incident.every
        found += [dense] if dense <= dense_until else []
    return min(found, default=None)


def daly(cost: float, mtbf: float) -> float:
    """The seconds of training between two saves that waste least: Daly (2006), of higher order than Young (1974).

    `cost` is what a save takes, `mtbf` the mean time between failures, both in seconds.

    >>> round(daly(60.0, 86400.0)), daly(100.0, 40.0)
    (3180, 40.0)
    """
    if cost >= 2.0 * mtbf:
        return mtbf
    share = cost / (2.0 * mtbf)
    return math.sqrt(2.0 * cost * mtbf) * (1.0 + math.sqrt(share) / 3.0 + share / 9.0) - cost


def plan_of(policy: Policy) -> dict[str, object]:
    """The share of a policy that the trainer's hook evaluates, as plain JSON values."""
    parts = {name: getattr(policy, name) for name in ("schedule", "phases", "clip", "checkpoints")}
    return {name: _plain(part) for name, part in parts.items()}


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def policy_of(plan: Mapping[str, Any]) -> Policy:
    """The policy whose share a plan is; the inverse of `plan_of` on those parts.

    >>> policy = Policy(phases={"a": Phase(until=5)})
    >>> policy_of(plan_of(policy)) == policy
    True
    """
    schedule, saving, clip = plan["schedule"], dict(plan["checkpoints"]), dict(plan["clip"])
    if schedule is not None:
        warmup, decay = schedule["warmup"], schedule["decay"]
        schedule = Schedule(peak=schedule["peak"], warmup=warmup and Warmup(**warmup), decay=decay and Decay(**decay))
    saving["every"] = Cadence(**saving["every"])
    saving["after_incident"] = saving["after_incident"] and Denser(**saving["after_incident"])
    saving["keep"] = saving["keep"] and Keep(**saving["keep"])
    clip["saturated"] = Saturated(**clip["saturated"])
    clip["adaptive"] = clip["adaptive"] and Adaptive(**clip["adaptive"])
    phases = {name: Phase(**phase) for name, phase in plan["phases"].items()}
    return Policy(schedule=schedule, phases=phases, clip=Clip(**clip), checkpoints=Checkpoints(**saving))
