"""Rules that hold a policy against the one that it extends: what protected there and does not here.

A policy may want exactly that. Then it says why, beside the value:

    rollbacks: {max: 6}  # orchestrate: allow ORC143 because the data of this run is known to be rough
"""

from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.core.policy import SEVERITIES, Policy
from orchestrator.review.lint.subject import Problem, Subject, ladders
from orchestrator.store import yaml_text

MODES = ("observe", "propose", "act")


def protection_off(subject: Subject) -> Iterator[Problem]:
    """Protection is switched off

    The policy that this one extends answers here with something that changes the run; this one only looks on. That is
    how a protection is lost without anybody noticing: by one line in another pull request.
    """
    if subject.base is None:
        return
    before = {answers.name: answers for answers in ladders(subject.base)}
    for answers in subject.spikes:
        if before[answers.name].mends and not answers.mends:
            yield Problem(
                answers.path, f"{answers.name} is no longer answered: the base does, this policy only records"
            )
    for name in ("crash", "hang", "oom", "disk_full", "preemption", "host"):
        if getattr(subject.base.failures, name).respond and not getattr(subject.policy.failures, name).respond:
            yield Problem(("failures", name, "respond"), f"{name} is no longer answered: the base relaunches")
    if MODES.index(subject.policy.mode) < MODES.index(subject.base.mode):
        only = "proposed" if subject.policy.mode == "propose" else "written down"
        yield Problem(
            ("mode",), f"{subject.policy.mode} instead of {subject.base.mode}: what the base does is only {only}"
        )


def nothing_for_nan(subject: Subject) -> Iterator[Problem]:
    """Nothing is done about NaN

    Once a weight is not finite, every further step is lost. A policy that acts should at least stop:
    `nonfinite: {respond: [[hold]]}`.
    """
    nonfinite = next(answers for answers in subject.spikes if answers.name == "nonfinite")
    if subject.policy.mode != "observe" and not nonfinite.mends:
        yield Problem(nonfinite.path, "nothing is done about NaN: every step after it is lost")


def seen_later(subject: Subject) -> Iterator[Problem]:
    """Trouble is seen later than in its base

    A detector's threshold, a window, a share or a count is higher than in the policy that this one extends.
    """
    if subject.base is None:
        return
    for name, spec in subject.policy.detectors.items():
        known = subject.base.detectors.get(name)
        if known is None or known["kind"] != spec["kind"]:
            continue
        for key in ("threshold", "sigmas", "above", "floor", "points"):
            now, then = spec.get(key), known.get(key)
            if isinstance(now, int | float) and isinstance(then, int | float) and now > then:
                yield Problem(
                    ("detectors", name, key), f"{key} {now:g} instead of {then:g}: less is seen than in the base"
                )
    yield from _looser(subject, SEEN)


def limit_looser(subject: Subject) -> Iterator[Problem]:
    """A limit is looser than in its base

    More may be done, or more may be lost, than in the policy that this one extends.
    """
    yield from _looser(subject, LIMITS)


def less_proof(subject: Subject) -> Iterator[Problem]:
    """A rollback target is proved by less than in its base

    Trouble shows later than it begins. A shorter proof, a smaller margin or a worse evaluation lets a checkpoint count
    as healthy that is not. (A policy that saves more often may shorten them in proportion.)
    """
    base = subject.base
    if base is None:
        return
    yield from _looser(subject, PROOF)
    now, then = subject.policy.checkpoints, base.checkpoints
    scale = now.every.value / then.every.value if now.every.unit == then.every.unit and then.every.value else 1.0
    for name in ("healthy_after", "margin"):
        short, long = getattr(now, name), getattr(then, name)
        if short < long * min(scale, 1.0):
            yield Problem(("checkpoints", name), f"{name} is {short} steps instead of {long}")


def severity_lower(subject: Subject) -> Iterator[Problem]:
    """A severity is lower than in its base

    Severity decides whether checkpoints near an incident are trusted and whether the run may end with exit code 0.
    """
    if subject.base is None:
        return
    for part in ("spikes", "failures"):
        mine, others = getattr(subject.policy, part), getattr(subject.base, part)
        for name in type(mine).__slots__:
            now, then = getattr(mine, name).severity, getattr(others, name).severity
            if SEVERITIES.index(now) < SEVERITIES.index(then):
                yield Problem((part, name, "severity"), f"{name} is {now} instead of {then}")


class Clause(NamedTuple):
    """A number of the policy, and whether more of it (+1) or less of it (-1) protects less."""

    path: str
    worse: int


SEEN = (
    Clause("spikes.repeated.events", 1),
    Clause("spikes.repeated.above", 1),
    Clause("spikes.repeated.within", -1),
    Clause("spikes.persistent.confirm.for", 1),
    Clause("spikes.persistent.confirm.above", 1),
    Clause("spikes.persistent.confirm.points", 1),
    Clause("spikes.persistent.minor.below", 1),
)
LIMITS = (
    Clause("limits.rollbacks.max", 1),
    Clause("limits.rollbacks.per", -1),
    Clause("limits.relaunches.max", 1),
    Clause("limits.lr_floor", -1),
    Clause("limits.clip_floor", -1),
    Clause("limits.quarantine.max_share", 1),
    Clause("spikes.nonfinite.skips.max", 1),
    Clause("spikes.nonfinite.skips.per", -1),
)
PROOF = (Clause("checkpoints.eval_worse", 1), Clause("checkpoints.before_phase_switch", -1))


def _looser(subject: Subject, clauses: tuple[Clause, ...]) -> Iterator[Problem]:
    """The clauses that are looser than in the base."""
    if subject.below is None or subject.base is None:
        return
    for clause in clauses:
        path: yaml_text.Path = tuple(clause.path.split("."))
        now, then = _number(subject.policy, path), _number(subject.base, path)
        if (now - then) * clause.worse > 0:
            written, before = _as_written(subject.loaded.raw, path), _as_written(subject.below.raw, path)
            known = f"{then:g}" if before is None else before
            yield Problem(path, f"{path[-1]} {written} is looser than in the base ({known})")


def _number(policy: Policy, path: yaml_text.Path) -> float:
    value: object = policy
    for part in path:
        value = getattr(value, f"{part}_" if part in ("for", "from") else str(part))
    return float(value) if isinstance(value, int | float) else 0.0


def _as_written(raw: object, path: yaml_text.Path) -> object:
    for part in path:
        raw = raw.get(part) if isinstance(raw, dict) else None
    return raw
