"""Rules about limits: one that cannot bind protects from nothing, one of nothing forbids what a ladder asks for."""

from collections.abc import Iterator

from orchestrator.review.lint.subject import Problem, Subject


def limit_cannot_bind(subject: Subject) -> Iterator[Problem]:
    """A limit that cannot bind

    The number is so large (or so small) that something else always stops the policy first, so it protects from nothing,
    and a reader believes that it does.
    """
    for problem in (*_spent_first(subject), *_all_or_nothing(subject)):
        if subject.says(problem.path):  # what this text did not write deceives nobody here
            yield problem


def _spent_first(subject: Subject) -> Iterator[Problem]:
    """Limits that another one comes before."""
    policy, limits = subject.policy, subject.policy.limits
    most = _most_rollbacks(subject)
    if most is not None and limits.rollbacks.max > most:
        within = f"{most} rollbacks within {limits.rollbacks.per} steps"
        message = f"the ladders allow {within}, so a limit of {limits.rollbacks.max} never binds"
        yield Problem(("limits", "rollbacks", "max"), message)
    for answers in subject.failures:
        count = getattr(policy.failures, answers.name).max
        asks = any(response.verb == "relaunch" for response in answers.ladder[0])
        if asks and limits.relaunches.refill == "on progress" and count > limits.relaunches.max:
            path = ("failures", answers.name, "max")
            yield Problem(path, f"limits.relaunches.max of {limits.relaunches.max} stops the run before {count} do")


def _all_or_nothing(subject: Subject) -> Iterator[Problem]:
    """Limits that leave room for all there is."""
    limits, skips = subject.policy.limits, subject.policy.spikes.nonfinite.skips
    if skips.max >= skips.per:
        path = ("spikes", "nonfinite", "skips", "max")
        yield Problem(path, f"{skips.max} of {skips.per} steps may be skipped: all of them")
    if limits.quarantine.max_share == 1.0:
        yield Problem(("limits", "quarantine", "max_share"), "100% lets a quarantine leave out all data")
    if limits.lr_floor == 0.0 and next(subject.uses("lr"), None):
        yield Problem(("limits", "lr_floor"), "a floor of 0% is none: cuts may go on until nothing is learned")
    if limits.clip_floor == 0.0 and next(subject.uses("clip"), None):
        yield Problem(("limits", "clip_floor"), "a floor of 0 is none: the clip may be tightened for ever")


def _most_rollbacks(subject: Subject) -> int | None:
    """How many rollbacks the ladders allow within the window of the limit; None where that is not bounded."""
    most = 0
    for answers in subject.spikes:
        count = sum(1 for _ in answers.responses("rollback"))
        spike = getattr(subject.policy.spikes, answers.name, None)
        if count and getattr(spike, "forget", 0) < subject.policy.limits.rollbacks.per:
            return None
        most += count
    return most or None


def limit_forbids(subject: Subject) -> Iterator[Problem]:
    """A limit forbids what a ladder asks for

    With a limit of nothing the rung becomes `hold` whenever it is reached (or the verb is left out). Raise the limit,
    or write what will happen.
    """
    limits = subject.policy.limits
    if limits.rollbacks.max == 0 and next(subject.uses("rollback"), None):
        yield Problem(
            ("limits", "rollbacks", "max"), "0 rollbacks are allowed, but the ladders ask for them: they become hold"
        )
    if limits.relaunches.max == 0 and next(subject.uses("relaunch"), None):
        yield Problem(
            ("limits", "relaunches", "max"), "0 relaunches are allowed, but the policy asks for them: they become hold"
        )
    if limits.quarantine.max_share == 0.0 and next(subject.uses("quarantine"), None):
        yield Problem(
            ("limits", "quarantine", "max_share"), "0% of the data may be left out, so every quarantine is refused"
        )
    norm = subject.policy.clip.max_norm
    if norm is not None and limits.clip_floor >= norm and next(subject.uses("clip"), None):
        yield Problem(
            ("limits", "clip_floor"), f"the floor of {limits.clip_floor:g} is not below clip.max_norm of {norm:g}"
        )
    for answers in subject.failures:
        if getattr(subject.policy.failures, answers.name).max == 0:
            path = ("failures", answers.name, "max")
            yield Problem(path, f"0 answers to {answers.name} are allowed, so what it responds is never done")
