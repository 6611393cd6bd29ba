"""What happened: every value that may influence a decision, and the decisions themselves.

A fact is a named tuple: frozen, comparable, cheap. Numbers are finite; what was not finite stands by
name in `nonfinite`. Step s is the state after s updates; `(attempt, step)` is the coordinate.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

Verb: TypeAlias = Literal[
    "record", "notify", "lr", "clip", "checkpoint", "skip", "stop", "rollback", "quarantine", "exclude",
    "relaunch", "dump", "reset_moments", "override", "hold",
]  # fmt: skip
VERBS: tuple[Verb, ...] = (
    "record", "notify", "lr", "clip", "checkpoint", "skip", "stop", "rollback", "quarantine", "exclude",
    "relaunch", "dump", "reset_moments", "override", "hold",
)  # fmt: skip

made = tuple.__new__  # a named tuple from all its fields, for what every record makes: without the cost of a call


class Ranks(NamedTuple):
    """The per-rank block of a step: every value for few ranks, a summary and its outliers for many."""

    n: int
    loss: tuple[float | None, ...] = ()
    grad_norm: tuple[float | None, ...] = ()
    median: float | None = None
    mad: float | None = None
    odd: tuple[tuple[int, float], ...] = ()
    nonfinite: tuple[int, ...] = ()


class Batch(NamedTuple):
    """What a step's batch was, as far as the trainer tells: its first ids and how many more, lengths in tokens."""

    ids: tuple[str, ...] = ()
    more: int = 0
    max_len: float | None = None
    loss_tokens: float | None = None  # that count in the loss


class Step(NamedTuple):
    """One record of training: what the trainer said of step `step`."""

    attempt: int
    step: int
    time: float = 0.0
    loss: float | None = None
    grad_norm: float | None = None
    lr: float | None = None
    nonfinite: tuple[str, ...] = ()
    skipped: bool = False
    phase: str | None = None
    shards: tuple[str, ...] = ()
    ranks: Ranks | None = None
    clip: float | None = None
    loss_scale: float | None = None
    tokens: float | None = None
    tokens_seen: float | None = None
    update_norm: float | None = None
    param_norm: float | None = None
    replicas_odd: tuple[int, ...] = ()  # ranks whose weights are no longer those of the others
    parameters: tuple[str, ...] = ()  # the first whose gradient is not finite
    module: str = ""  # the first whose output is not finite
    batch: Batch | None = None


class Eval(NamedTuple):
    """One evaluation; `value` is None where it was not finite."""

    attempt: int
    step: int
    name: str
    value: float | None
    time: float = 0.0


class Checkpoint(NamedTuple):
    """What was seen of a checkpoint: its save began, it stands complete, its save failed, or it is gone."""

    attempt: int
    step: int
    path: str
    state: Literal["started", "saved", "failed", "corrupt", "missing"]
    why: str = ""
    time: float = 0.0
    seconds: float | None = None  # that the trainer stood still for it
    lacks: tuple[str, ...] = ()  # what a resume from it would miss, such as "optimizer"
    ranks: int | None = None  # where no other number of ranks can load it


class Room(NamedTuple):
    """The free bytes where the checkpoints go, and how many the newest one takes."""

    free: int
    needed: int
    time: float


class Announced(NamedTuple):
    """The trainer's first word: what it is going to do."""

    attempt: int
    start_step: int = 0
    total_steps: int | None = None
    world_size: int | None = None
    shards_total: int | None = None
    hosts: tuple[str, ...] = ()
    hook: bool = False
    time: float = 0.0
    skips: bool = False
    reset: bool = False  # it resumes without the optimizer's moments


class Ended(NamedTuple):
    """The trainer's last word."""

    attempt: int
    step: int
    status: str
    time: float = 0.0


class Launched(NamedTuple):
    """An attempt of the job was started."""

    attempt: int
    start_step: int
    checkpoint: str
    host: str
    pid: int
    time: float


Cause: TypeAlias = Literal[
    "completed", "crash", "oom", "disk_full", "preemption", "host", "command", "numeric", "environment"
]


class Exited(NamedTuple):
    """The job's processes are gone: how it ended, as far as its records tell."""

    attempt: int
    code: int | None
    signal: int | None
    cause: Cause
    why: str
    time: float


class Tick(NamedTuple):
    """The time the core asked to be woken at has come."""

    time: float


class Supervised(NamedTuple):
    """A supervisor took the run up, with an epoch of its own.

    `text` is the policy where it is another than before; `place` what the launcher tells of where the job runs
    (its number at the scheduler, restarts, nodes, the end of its time).
    """

    epoch: int
    time: float
    policy: str
    version: str
    text: str = ""
    place: tuple[tuple[str, str], ...] = ()


class Order(NamedTuple):
    """An operator's word."""

    verb: str
    author: str
    time: float
    why: str = ""
    value: float | None = None
    host: str = ""
    shards: tuple[str, ...] = ()


class Cut(NamedTuple):
    """One learning-rate cut: its factor, the step it counts from, and how it is given back."""

    factor: float
    step: int
    after: int | None = None
    over: int | None = None


class Action(NamedTuple):
    """What to do, in absolutes: doing it twice is harmless."""

    id: int
    verb: Verb
    incident: int
    attempt: int
    step: int
    why: str = ""
    to_step: int | None = None
    path: str = ""
    window: tuple[int, int] | None = None  # steps whose batches are left out
    words: tuple[str, ...] = ()  # that the job's command ends in
    factor: float | None = None
    cuts: tuple[Cut, ...] = ()
    shards: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    save: bool = False  # stop: only after one more checkpoint


class Decision(NamedTuple):
    """What was decided on the facts so far; `held` when an operator's yes is awaited or nothing may be done."""

    number: int
    incident: int
    actions: tuple[Action, ...]
    mode: Literal["observe", "propose", "act"]
    time: float
    why: str = ""
    rung: int = 0
    order: bool = False  # it answers the oldest order that waits


class Outcome(NamedTuple):
    """What became of an action when it was applied."""

    action: int
    status: Literal["done", "failed"]
    detail: str
    time: float


Fact: TypeAlias = (
    Step | Eval | Checkpoint | Announced | Ended | Launched | Exited | Tick | Supervised | Order | Decision | Outcome
    | Room
)  # fmt: skip
FACTS: tuple[type, ...] = (
    Step, Eval, Checkpoint, Announced, Ended, Launched, Exited, Tick, Supervised, Order, Decision, Outcome, Room,
)  # fmt: skip


class Reading(NamedTuple):
    """What a detector saw at a step: a value against the threshold that its baseline gives.

    `leading` and `context` open nothing: the first moves the onset of the spike it leads, both stand among its
    evidence. A `fault` is an incident of the class that its detector is called after, unless a spike is open.
    """

    detector: str
    signal: str
    kind: Literal["high", "low", "level", "nonfinite", "rank", "leading", "context", "fault"]
    step: int
    value: float
    baseline: float
    threshold: float
    spread: float = 0.0
    onset: int | None = None
    rank: int | None = None
    detail: str = ""


_VALUES = ("loss", "grad_norm", "lr", "clip", "loss_scale", "tokens", "tokens_seen", "update_norm", "param_norm")


def step_of(attempt: int, step: int, values: Mapping[str, float | None], **rest: object) -> Step:
    """A step from raw values, the non-finite ones split off by name.

    >>> step_of(1, 7, {"loss": float("nan"), "lr": 0.1}).nonfinite
    ('loss',)
    """
    finite: dict[str, float] = {}
    wrong: list[str] = []
    for name in _VALUES:
        value = values.get(name)
        if value is None:
            continue
        if math.isfinite(value):
            finite[name] = value
        else:
            wrong.append(name)
    return Step(attempt, step, nonfinite=tuple(wrong), **finite, **rest)  # type: ignore[arg-type]


def ranks_of(loss: Sequence[float | None], grad_norm: Sequence[float | None] = ()) -> Ranks:
    """The block of a few ranks, with the ranks whose loss or norm is not finite by number.

    >>> ranks_of([2.0, float("nan")]).nonfinite
    (1,)
    """

    def finite(values: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(v if v is not None and math.isfinite(v) else None for v in values)

    odd = {r for values in (loss, grad_norm) for r, v in enumerate(values) if v is not None and not math.isfinite(v)}
    n = max(len(loss), len(grad_norm))
    return Ranks(n, finite(loss), finite(grad_norm), nonfinite=tuple(sorted(odd)))
