"""Rules about checkpoints: whether there is one to go back to when it is needed."""

from collections.abc import Iterator

from orchestrator.review.lint.subject import Problem, Subject

KEEP = ("checkpoints", "keep")


def retention_below_two(subject: Subject) -> Iterator[Problem]:
    """Rollback with a retention below two

    A checkpoint is proved only by the steps after it, so at any time the newest one is not proved yet; with one kept,
    there is nothing to go back to. Keep at least `{last: 2, healthy: 2}`, or leave `keep` out and nothing is removed.
    """
    keep = subject.policy.checkpoints.keep
    if keep is None or next(subject.uses("rollback"), None) is None:
        return
    for name, kept in (("last", keep.last), ("healthy", keep.healthy)):
        if kept < 2:
            yield Problem(
                (*KEEP, name), f"the policy rolls back, but keeps {kept} of the {_WORDS[name]} checkpoints; keep 2"
            )


_WORDS = {"last": "newest", "healthy": "healthy"}


def look_back_too_short(subject: Subject) -> Iterator[Problem]:
    """What is kept does not reach back far enough

    When a rise is confirmed, `confirm.for` steps have passed since its onset; the target must lie `margin` steps before
    that, and a rung of depth n goes n checkpoints further back. Retention must reach that far: checkpoints kept times
    their distance.
    """
    keep, every = subject.policy.checkpoints.keep, subject.every
    if keep is None:
        return
    for path, response in subject.uses("rollback"):
        if response.depth > max(keep.healthy, 1):
            yield Problem(
                path, f"depth {response.depth} needs {response.depth} healthy checkpoints; {keep.healthy} are kept"
            )
    if every is None or next(subject.uses("rollback"), None) is None:
        return
    back = subject.policy.spikes.persistent.confirm.for_ + subject.policy.checkpoints.margin
    reach = max(keep.last, keep.healthy) * every
    if back > reach:
        yield Problem(
            KEEP, f"a target may lie {back} steps back (confirm.for + margin), but what is kept reaches {reach}"
        )


def never_healthy(subject: Subject) -> Iterator[Problem]:
    """Checkpoints are removed before they are proved

    A checkpoint becomes healthy `healthy_after` steps after its step. With fewer kept than that many steps hold, every
    one is removed while it is still provisional, and a rollback finds none.
    """
    keep, every, saving = subject.policy.checkpoints.keep, subject.every, subject.policy.checkpoints
    if keep is not None and every is not None and keep.last * every < saving.healthy_after:
        yield Problem(
            (*KEEP, "last"), f"{keep.last} x {every} steps are kept, but healthy_after is {saving.healthy_after} steps"
        )


def confirm_longer_than_cadence(subject: Subject) -> Iterator[Problem]:
    """The confirm window is longer than the checkpoint distance

    While a rise is still in doubt, newer checkpoints are taken from within it and push the older ones out of what is
    kept. Confirm within one checkpoint distance, or save less often.
    """
    every, confirm = subject.every, subject.policy.spikes.persistent.confirm
    if every is not None and confirm.for_ > every:
        path = ("spikes", "persistent", "confirm", "for")
        yield Problem(path, f"confirm.for is {confirm.for_} steps, longer than the {every} steps between checkpoints")


def healthy_before_confirmed(subject: Subject) -> Iterator[Problem]:
    """A checkpoint counts as healthy before trouble can be confirmed

    `healthy_after` is shorter than `confirm.for`: a checkpoint saved inside a slow rise is called healthy while the
    rise is still being confirmed. Let `healthy_after` be the longer one.
    """
    saving, confirm = subject.policy.checkpoints, subject.policy.spikes.persistent.confirm
    if saving.healthy_after < confirm.for_:
        path = ("checkpoints", "healthy_after")
        yield Problem(
            path, f"healthy_after is {saving.healthy_after} steps, shorter than confirm.for of {confirm.for_}"
        )


def denser_is_not(subject: Subject) -> Iterator[Problem]:
    """The denser cadence is not denser

    `after_incident.every` is there to save more often after an incident. At or above the usual distance it does
    nothing.
    """
    every, dense = subject.every, subject.policy.checkpoints.after_incident
    if every is not None and dense is not None and dense.every >= every:
        path = ("checkpoints", "after_incident", "every")
        yield Problem(path, f"every {dense.every} steps after an incident is not denser than every {every} steps")
