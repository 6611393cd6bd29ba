"""Rules about ladders: what is answered, in which order, and how it ends."""

import math
from collections.abc import Iterator
from itertools import pairwise

from orchestrator.review.lint.subject import Problem, Subject

ENDS = frozenset({"hold", "stop"})


def ladder_without_end(subject: Subject) -> Iterator[Problem]:
    """A ladder has no end

    The last rung of a ladder that changes the run is not `[hold]`. After the last rung the supervisor holds the
    run in any case, but a reader of this text cannot see that, and takes the last rung to be repeated for ever.
    Write `- [hold]` as the last rung.
    """
    for answers in subject.spikes:
        if answers.mends and not any(response.verb in ENDS for response in answers.ladder[-1]):
            yield Problem(answers.path, f"the ladder of {answers.name} has no end; let its last rung be [hold]")


def unreachable_rung(subject: Subject) -> Iterator[Problem]:
    """A rung or a verb is never reached

    `hold` ends what the policy does: the rungs after it, and the verbs after it in the same rung, are never done.
    Move `hold` to the end, or take out what follows it.
    """
    for answers in subject.spikes:
        for path, _ in answers.responses("hold"):
            rung, place = int(path[-2]), int(path[-1])
            if place + 1 < len(answers.ladder[rung]):
                yield Problem((*path[:-1], place + 1), "nothing after hold is done in a rung")
            if rung + 1 < len(answers.ladder):
                yield Problem(
                    (*path[:-2], rung + 1), f"this rung of {answers.name} comes after hold and is never reached"
                )
                break


def rollback_without_relaunch(subject: Subject) -> Iterator[Problem]:
    """A rollback that nothing follows

    `rollback` chooses the checkpoint that the run goes on from; it is `relaunch` that starts the job there. Without
    it the job is stopped and the run is held. Write `relaunch` as the last verb of the rung (or `hold`, when a
    person is to start it).
    """
    for answers in subject.spikes:
        for path, _ in answers.responses("rollback"):
            rung = answers.ladder[int(path[-2])]
            if not any(response.verb in ("relaunch", "hold") for response in rung):
                yield Problem(path, "this rollback is not followed by relaunch: the run would be held")


def relaunch_without_rollback(subject: Subject) -> Iterator[Problem]:
    """A relaunch that takes the trouble with it

    Without `rollback` in the same rung a relaunch begins from the newest usable checkpoint, and repeats what led to
    the incident. For a spike, write `rollback` before `relaunch`.
    """
    for answers in subject.spikes:
        if answers.name == "rank_local":
            continue  # leaving a host needs no older state
        for path, _ in answers.responses("relaunch"):
            rung = answers.ladder[int(path[-2])]
            if not any(response.verb == "rollback" for response in rung[: int(path[-1])]):
                yield Problem(
                    path, f"{answers.name}: relaunch without a rollback before it begins where the trouble is"
                )


def rollback_for_isolated(subject: Subject) -> Iterator[Problem]:
    """An isolated spike is answered too strongly

    An isolated spike is over when it is classified: the loss is back at its old level. Going back, cutting the rate
    or starting anew costs more than the spike did. Answer it with `record`.
    """
    for answers in subject.spikes:
        if answers.name == "isolated":
            for path, response in answers.responses("rollback", "relaunch", "lr", "stop", "hold"):
                yield Problem(path, f"isolated spikes heal by themselves; {response.verb} costs more than they do")


def quarantine_without_relaunch(subject: Subject) -> Iterator[Problem]:
    """A quarantine that begins much later

    The list of shards that are left out is read when the job starts. A rung with `quarantine` and without `relaunch`
    changes nothing until something else starts the job anew.
    """
    for answers in subject.spikes:
        for path, _ in answers.responses("quarantine", "exclude"):
            if not any(response.verb == "relaunch" for response in answers.ladder[int(path[-2])]):
                yield Problem(path, "what is left out is read at launch; without relaunch in this rung nothing changes")


def weaker_rung(subject: Subject) -> Iterator[Problem]:
    """A later rung is weaker than the one before it

    The same incident came back after the rung before: going back less deep, or cutting the rate less, will not do
    better. Let rungs become stronger.
    """
    for answers in subject.spikes:
        for number, (before, after) in enumerate(pairwise(answers.ladder), 1):
            for j, response in enumerate(after):
                same = next((known for known in before if known.verb == response.verb), None)
                if same is None:
                    continue
                if response.verb == "rollback" and response.depth < same.depth:
                    yield Problem(
                        (*answers.path, number, j), f"rung {number + 1} rolls back less deep than the one before"
                    )
                if response.factor is not None and same.factor is not None and response.factor > same.factor:
                    name = response.verb
                    yield Problem((*answers.path, number, j), f"rung {number + 1} cuts {name} less than the one before")


def cut_that_is_none(subject: Subject) -> Iterator[Problem]:
    """A cut that cuts nothing, or everything

    `{lr: 70%}` means 70 % of the rate that was planned. 100 % changes nothing; 0 % stops the training while the job
    runs on. Write a share between them.
    """
    for path, response in subject.uses("lr", "clip"):
        if response.factor == 1.0:
            yield Problem(path, f"{response.verb}: 100% changes nothing")
        elif response.factor == 0.0:
            yield Problem(path, f"{response.verb}: 0% stops the training while the job runs on")
        elif response.factor is None:
            yield Problem(path, f"{response.verb} needs its share, such as {{{response.verb}: 50%}}")


def cuts_below_floor(subject: Subject) -> Iterator[Problem]:
    """A ladder's cuts go below the floor

    The cuts of one ladder multiply. Once their product is below `limits.lr_floor`, the rung becomes `hold` and its
    other verbs are not done. Cut less, lower the floor, or write `[hold]` as the rung that it is.
    """
    floor = subject.policy.limits.lr_floor
    for answers in subject.spikes:
        scale = 1.0
        for path, response in answers.responses("lr"):
            scale *= response.factor if response.factor is not None else 1.0
            if 0.0 < scale < floor and not math.isclose(scale, floor):
                yield Problem(
                    path,
                    f"the cuts of {answers.name} multiply to {100 * scale:.3g}%, below lr_floor: this rung is hold",
                )
                break


def clip_of_nothing(subject: Subject) -> Iterator[Problem]:
    """A clip is tightened that the policy does not set

    `{clip: 50%}` scales the policy's own limit. With `clip.max_norm: null` (and no phase's own) the trainer clips for
    itself and there is nothing to scale: the verb is left out. Give `clip.max_norm`.
    """
    policy = subject.policy
    if policy.clip.max_norm is None and all(phase.clip is None for phase in policy.phases.values()):
        for path, _ in subject.uses("clip"):
            yield Problem(path, "clip has no effect: clip.max_norm is null, so the policy sets no clip")
