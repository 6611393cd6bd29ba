"""Rules about a named job: can it do what the policy asks for?

What a job can do is declared in its configuration under `job.can`; what is not declared is taken from how it
is joined: the hook (telemetry of kind `wire`) can do all, any other trainer what its command line has tokens for.

    job:
      can: {relaunch_lr: ignored, live_lr: false, live_clip: false, save_now: false, quarantine: false, resume: true}
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from orchestrator.core.facts import Verb
from orchestrator.review.lint.subject import Problem, Subject

if TYPE_CHECKING:
    from orchestrator.config import Config

_KEPT = re.compile(
    r"--?(?:[\w.-]*[._-])?(save[_-]total[_-]limit|total[_-]limit|keep[_-]latest[_-]k|save[_-]top[_-]k|keep[_-]last[_-]n"
    r"|max[_-]checkpoints?|num[_-]checkpoints[_-]to[_-]keep)(?:=(\d+))?"
)


class Abilities(NamedTuple):
    """What a job can do."""

    relaunch_lr: Literal["effective", "ignored", "asserts", "none"]
    live_lr: bool
    live_clip: bool
    save_now: bool
    quarantine: bool
    resume: bool
    schedule: bool


def abilities(config: "Config") -> Abilities:
    """The declared abilities, and what follows from how the job is joined where nothing is declared."""
    hook = config.telemetry.get("kind") == "wire"
    words = " ".join(config.job.command)
    known = Abilities(
        relaunch_lr="effective" if hook or "{lr_scale}" in words else "none",
        live_lr=hook,
        live_clip=hook,
        save_now=hook,
        quarantine=hook or "{quarantine}" in words,
        resume=hook or "{checkpoint}" in words or "{step}" in words,
        schedule=hook,
    )
    said = config.values.get("job", {}).get("can")
    declared = said if isinstance(said, dict) else {}
    return known._replace(**{key: value for key, value in declared.items() if key in Abilities._fields})


def rate_cannot_change(subject: Subject) -> Iterator[Problem]:
    """The job cannot change its learning rate

    The policy cuts the rate, but the job reads no directive (no hook) and its command line has no `{lr_scale}`; or it
    is declared that the rate of a relaunch is ignored (the checkpoint brings the old one back) or refused. Attach the
    hook, or give the trainer an option that takes effect.
    """
    can = _can(subject)
    if can is None or can.live_lr or can.relaunch_lr == "effective":
        return
    words = {
        "ignored": "the checkpoint brings the old rate back",
        "asserts": "the trainer refuses another rate than the checkpoint's",
    }
    why = words.get(can.relaunch_lr, "there is no hook and no {lr_scale} in job.command")
    yield from _each(subject, "lr", f"this job cannot change its rate: {why}")


def clip_cannot_change(subject: Subject) -> Iterator[Problem]:
    """The job cannot change its gradient clip

    The clip is tightened by the hook, in the running job. This job has none.
    """
    can = _can(subject)
    if can is not None and not can.live_clip:
        yield from _each(subject, "clip", "this job reads no directive, so its clip cannot be tightened")


def cannot_resume(subject: Subject) -> Iterator[Problem]:
    """The job cannot be told where to go on from

    A rollback names its checkpoint at the relaunch, by `{checkpoint}` in `job.command` or through the hook. Without
    them most trainers take their own newest checkpoint: the one that the policy wants to leave behind.
    """
    can = _can(subject)
    if can is not None and not can.resume:
        yield from _each(
            subject, "rollback", "this job cannot be told which checkpoint to load: {checkpoint} is not in job.command"
        )


def cannot_quarantine(subject: Subject) -> Iterator[Problem]:
    """The job cannot leave data out

    The list of shards reaches a job through the hook's reader or by `{quarantine}` in `job.command`. This job has
    neither.
    """
    can = _can(subject)
    if can is not None and not can.quarantine:
        yield from _each(subject, "quarantine", "this job reads no list of shards: {quarantine} is not in job.command")


def cannot_save_now(subject: Subject) -> Iterator[Problem]:
    """The job cannot save on request

    `checkpoint` as an answer, and the denser cadence after an incident, ask the running trainer to save. This one does
    not listen; it saves when it saves.
    """
    can = _can(subject)
    if can is not None and not can.save_now:
        yield from _each(subject, "checkpoint", "this job cannot be asked to save")


def schedule_not_owned(subject: Subject) -> Iterator[Problem]:
    """A schedule that nothing follows

    The policy owns the learning rate (`schedule`), but only the hook evaluates it. This trainer keeps its own: leave
    `schedule` out, and the policy scales what the trainer does.
    """
    can = _can(subject)
    if can is not None and not can.schedule and subject.policy.schedule is not None:
        yield Problem(("schedule",), "this job has no hook, so nothing follows the policy's schedule")


def framework_deletes(subject: Subject) -> Iterator[Problem]:
    """The trainer deletes what the policy may need

    An option in `job.command` keeps only the newest checkpoints, whatever their health. A rollback needs those from
    before the onset: keep more, or let the policy's `keep` do it.
    """
    if subject.config is None or next(subject.uses("rollback"), None) is None:
        return
    deepest = max(response.depth for _, response in subject.uses("rollback"))
    for option, kept in _kept(subject.config.job.command):
        if kept <= deepest:
            path, _ = next(subject.uses("rollback"))
            yield Problem(
                path,
                f"job.command keeps {kept} checkpoint(s) ({option}); going back {deepest} deep needs {deepest + 1}",
            )


def _kept(words: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Options that limit how many checkpoints a trainer keeps, and their numbers."""
    for word, after in zip(words, (*words[1:], ""), strict=True):
        found = _KEPT.fullmatch(word)
        number = (found[2] or after) if found else ""
        if found and number.isdigit() and int(number) > 0:
            yield word, int(number)


def _can(subject: Subject) -> Abilities | None:
    return abilities(subject.config) if subject.config is not None else None


def _each(subject: Subject, verb: Verb, message: str) -> Iterator[Problem]:
    """One problem for the first use of a verb: the others have the same cause."""
    for path, _ in subject.uses(verb):
        yield Problem(path, message)
        return
