"""Rules about the planned course of a run: schedule, phases, and thresholds that a start must cross."""

from collections.abc import Iterator
from itertools import pairwise
from math import log

from orchestrator.review.lint.subject import Problem, Subject

FIXED = ("cap", "ceiling", "limit", "at")  # parameters that are a loss, not a share or a number of deviations
VOCABULARY = 60_000  # words: an untrained model's loss is the logarithm of their number


def phase_without_grace(subject: Subject) -> Iterator[Problem]:
    """A phase without grace

    New data brings another loss. For `grace` steps a bounded rise is forgiven while the detectors learn the new level;
    what is not written is taken to be 200 steps, whatever the length of the run. Write it, and let it be no shorter
    than the phase's own re-warm-up.
    """
    for name, phase in list(subject.policy.phases.items())[1:]:
        path = ("phases", name, "grace")
        if not subject.has(path):
            yield Problem(path[:2], f"phase {name!r} has no grace of its own; {phase.grace} steps are taken")
        elif phase.rewarm is not None and phase.grace < phase.rewarm:
            yield Problem(path, f"grace of {phase.grace} steps ends before the re-warm-up of {phase.rewarm} steps does")


def phases_out_of_order(subject: Subject) -> Iterator[Problem]:
    """A phase that is never reached

    Phases follow one another in the order of the text: each ends at `until`, the last one may leave it out. One without
    `until` before others, or one that ends before it begins, hides what follows.
    """
    phases = list(subject.policy.phases.items())
    for (name, phase), (after, later) in pairwise(phases):
        if phase.until is None:
            yield Problem(("phases", name), f"phase {name!r} has no end, so phase {after!r} is never reached")
        elif later.until is not None and later.until <= phase.until:
            message = f"phase {after!r} ends at step {later.until}, before phase {name!r} does at {phase.until}"
            yield Problem(("phases", after, "until"), message)


def schedule_without_course(subject: Subject) -> Iterator[Problem]:
    """A schedule that goes nowhere

    The rate is zero throughout, or the warm-up is not over when the decay has ended.
    """
    schedule = subject.policy.schedule
    if schedule is None:
        return
    if schedule.peak == 0.0:
        yield Problem(("schedule", "peak"), "the peak is 0: nothing would be learned")
    warm, decay = schedule.warmup, schedule.decay
    if warm is not None and decay is not None and warm.for_ >= decay.until:
        yield Problem(
            ("schedule", "warmup", "for"), f"warm-up of {warm.for_} steps, but the decay ends at step {decay.until}"
        )
    if warm is not None and warm.from_ > 1.0:
        yield Problem(
            ("schedule", "warmup", "from"), f"warm-up begins at {warm.from_:g} times the peak: `from` is a share of it"
        )
    for name, phase in subject.policy.phases.items():
        if phase.lr == 0.0:
            yield Problem(("phases", name, "lr"), f"phase {name!r} trains with a rate of 0")


def fixed_threshold(subject: Subject) -> Iterator[Problem]:
    """A fixed threshold that a start must cross

    A run begins with a loss near the logarithm of its vocabulary (about 11 for a language model), and its first
    gradient norms are many times the later ones. A cap below that fires in every start-up. Use a detector that learns
    its level (`robust_z`, `level_shift`), or raise the cap above the first loss.
    """
    first = log(VOCABULARY)
    for name, spec in subject.policy.detectors.items():
        for key in FIXED:
            value = spec.get(key)
            if isinstance(value, float | int) and 0 < value < first and spec.get("signal", "loss") == "loss":
                path = ("detectors", name, key)
                yield Problem(path, f"a run that begins at a loss of {first:.0f} crosses {value:g} in its first steps")
