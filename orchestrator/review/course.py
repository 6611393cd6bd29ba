"""The planned course of a run: rate, phases, clip, checkpoints, what is answered, and what may be lost at worst."""

from typing import Any

from orchestrator.core.policy import Ladder, Policy, Response
from orchestrator.core.schedule import checkpoint_due, clip_at, phase_at, phase_factor, rate, switches
from orchestrator.review.lint.subject import ladders
from orchestrator.store.policy_unparse import cadence, response
from orchestrator.store.policy_write import flow

SAMPLES = 240
DEFAULT_STEPS = 10_000
LISTED = 10_000  # checkpoint steps that are listed one by one


def total_of(policy: Policy) -> int:
    """Where the plan ends: the schedule's end, the last phase's, or a length to look at."""
    ends = [phase.until for phase in policy.phases.values() if phase.until is not None]
    if policy.schedule is not None and policy.schedule.decay is not None:
        ends.append(policy.schedule.decay.until)
    return max(ends, default=DEFAULT_STEPS)


def course(policy: Policy, steps: int | None = None) -> dict[str, Any]:
    """The whole plan as plain values; `lr` is a share of the trainer's own rate where the policy has no schedule."""
    total = steps or total_of(policy)
    at = _sampled(policy, total)
    return {
        "format_version": 1,
        "mode": policy.mode,
        "steps": total,
        "lr_owner": "policy" if policy.schedule is not None else "trainer",
        "lr": [[step, lr_at(policy, step)] for step in at],
        "clip": [[step, clip_at(policy, step)] for step in at],
        "phases": _phases(policy, total),
        "checkpoints": _checkpoints(policy, total),
        "reactions": [*_reactions(policy), *_failures(policy)],
        "limits": _limits(policy),
    }


def lr_at(policy: Policy, step: int) -> float:
    """The planned rate of a step, or the share of the trainer's own."""
    own = rate(policy.schedule, step) if policy.schedule is not None else 1.0
    return own * phase_factor(policy.phases, step)


def _sampled(policy: Policy, total: int) -> list[int]:
    """Steps that show the course: evenly spread, and both sides of every corner."""
    corners = [end + side for end in switches(policy.phases) for side in (0, 1)]
    warm = policy.schedule.warmup if policy.schedule is not None else None
    corners += [warm.for_] if warm is not None else []
    even = [1 + (total - 1) * i // (SAMPLES - 1) for i in range(SAMPLES)]
    return sorted({step for step in (*even, *corners) if 1 <= step <= total})


def _phases(policy: Policy, total: int) -> list[dict[str, Any]]:
    told = []
    for name, phase in policy.phases.items():
        begins = [step for step in (1, *(end + 1 for end in switches(policy.phases))) if step <= total]
        found = [step for step in begins if (at := phase_at(policy.phases, step)) is not None and at.name == name]
        if found:
            told.append(
                {"name": name, "from": found[0], "until": phase.until or total, "lr": phase.lr, "rewarm": phase.rewarm,
                 "clip": phase.clip, "grace": phase.grace, "rise": phase.rise}
            )  # fmt: skip
    return told


def _checkpoints(policy: Policy, total: int) -> dict[str, Any]:
    """How often, how many over the run, and (where they are counted in steps) when."""
    saving = policy.checkpoints
    told: dict[str, Any] = {
        "every": cadence(saving.every),
        "healthy_after": saving.healthy_after,
        "margin": saving.margin,
    }
    if saving.every.unit != "steps":
        return {**told, "count": None, "steps": None}
    every = int(saving.every.value)
    extra = [end for end in switches(policy.phases) if end <= total and checkpoint_due(policy, end, end - 1)]
    times = sorted({*range(every, total + 1, every), *extra}) if total // every <= LISTED else None
    return {**told, "count": total // every + sum(1 for end in extra if end % every), "steps": times}


def _reactions(policy: Policy) -> list[dict[str, Any]]:
    """Per class its severity, its rungs, and the steps that its first answer trains again at worst."""
    spikes = policy.spikes
    told = []
    for answers in ladders(policy):
        spike = spikes.persistent.minor if answers.name == "minor" else getattr(spikes, answers.name)
        told.append(
            {"class": answers.name, "severity": spike.severity, "rungs": _rungs(answers.ladder),
             "lost_steps": [_lost(policy, rung, answers.name) for rung in answers.ladder]}
        )  # fmt: skip
    return told


def _failures(policy: Policy) -> list[dict[str, Any]]:
    told = []
    for name in ("crash", "hang", "oom", "disk_full", "preemption", "host"):
        failure = getattr(policy.failures, name)
        every = int(policy.checkpoints.every.value) if policy.checkpoints.every.unit == "steps" else None
        answer: Ladder = (failure.respond,) if failure.respond else ()
        lost = [every if any(each.verb == "relaunch" for each in rung) else 0 for rung in answer]
        told.append(
            {
                "class": name,
                "severity": failure.severity,
                "max": failure.max,
                "rungs": _rungs(answer),
                "lost_steps": lost,
            }
        )
    return told


def _rungs(ladder: Ladder) -> list[list[str]]:
    return [[flow(response(each)) for each in rung] for rung in ladder]


def _lost(policy: Policy, rung: tuple[Response, ...], name: str) -> int | None:
    """Steps trained again at worst: until it is seen, back to a healthy checkpoint before it, one more a depth.

    None where the cadence is not in steps.
    """
    back = next((each for each in rung if each.verb == "rollback"), None)
    if back is None:
        return 0
    saving = policy.checkpoints
    if saving.every.unit != "steps":
        return None
    seen = policy.spikes.persistent.confirm.for_ if name in ("persistent", "minor") else 1
    return seen + max(saving.margin, saving.healthy_after) + back.depth * int(saving.every.value)


def _limits(policy: Policy) -> dict[str, Any]:
    limits = policy.limits
    return {
        "rollbacks": {"max": limits.rollbacks.max, "per": limits.rollbacks.per},
        "relaunches": {"max": limits.relaunches.max, "refill": limits.relaunches.refill},
        "lr_floor": limits.lr_floor,
        "clip_floor": limits.clip_floor,
        "quarantine": {"max_share": limits.quarantine.max_share, "expires": limits.quarantine.expires},
    }
