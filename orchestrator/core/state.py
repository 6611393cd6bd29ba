"""What is known: the run, its incidents, its checkpoints; and the two transition tables.

A state is a value, a fold of `evolve` over facts. The tables below are the only places where a run's
status and an incident's stage change.
"""

from typing import Literal, NamedTuple, TypeAlias

from orchestrator.core.facts import Action, Batch, Checkpoint, Cut, Ended, Exited, Order, Reading, Room, Verb, made
from orchestrator.core.policy import SEVERITIES, Severity
from orchestrator.core.rules import Rules
from orchestrator.core.watch import SpikeClass, Watch, first_watch

Status: TypeAlias = Literal[
    "starting", "running", "stopping", "relaunching", "held", "completed", "failed", "preempted", "stopped"
]
FINAL: frozenset[Status] = frozenset({"held", "completed", "failed", "preempted", "stopped"})

# (status, what happened) -> status; what is not listed changes nothing.
STATUS: dict[tuple[Status, str], Status] = {
    ("starting", "launched"): "running",
    ("running", "stop ordered"): "stopping",
    ("stopping", "launched"): "running",  # the end of the attempt before is told a moment later
    ("running", "exited"): "relaunching",
    ("stopping", "exited"): "relaunching",
    ("relaunching", "launched"): "running",
    ("starting", "exited"): "relaunching",
    ("relaunching", "completed"): "completed",
    ("relaunching", "failed"): "failed",
    ("relaunching", "stopped"): "stopped",
    ("relaunching", "preempted"): "preempted",
    ("starting", "held"): "held",
    ("running", "held"): "held",
    ("stopping", "held"): "held",
    ("relaunching", "held"): "held",
    ("held", "released"): "relaunching",
    ("stopped", "released"): "relaunching",
    ("failed", "released"): "relaunching",
    ("preempted", "released"): "relaunching",
    ("preempted", "supervised"): "relaunching",
    ("preempted", "stopped"): "stopped",
}

BATCHES = 64  # the newest steps whose batch is remembered
MAX_INCIDENTS = 1000  # older closed ones are in the journal

LeftOut: TypeAlias = tuple[str, int, int | None]  # shard, incident, the frontier that ends it
Stage: TypeAlias = Literal["open", "confirmed", "acting", "probation", "closed"]

# (stage, what happened) -> stage.
STAGE: dict[tuple[Stage, str], Stage] = {
    ("open", "confirmed"): "confirmed",
    ("open", "back"): "closed",
    ("confirmed", "decided"): "acting",
    ("acting", "relaunched"): "probation",
    ("acting", "applied"): "probation",
    ("probation", "held level"): "closed",
    ("probation", "promoted"): "open",
}

FAILURES = frozenset({"hang", "crash", "oom", "disk_full", "preemption", "host"})

IncidentClass: TypeAlias = (
    SpikeClass
    | Literal[
        "hang", "crash", "oom", "disk_full", "preemption", "host", "lr_mismatch", "resume_mismatch",
        "data_replayed", "loss_scale", "silent",
    ]
)  # fmt: skip


class Read(NamedTuple):
    """The batch that was read for a step."""

    step: int
    batch: Batch


class Incident(NamedTuple):
    """One trouble from its onset to its end."""

    id: int
    cls: IncidentClass
    severity: Severity
    attempt: int
    onset: int
    onset_low: int
    detected: int
    stage: Stage = "open"
    frontier: int = 0
    peak: float | None = None
    peak_step: int | None = None
    end: int | None = None
    baseline: float | None = None
    height: float = 0.0
    sigmas: float = 0.0  # the peak's distance from the old level, in spreads
    rank: int | None = None
    rung: int = 0
    events: int = 1
    alike: int = 1  # failures in a row at the same step with the same words
    shards: tuple[str, ...] = ()
    batches: tuple[Read, ...] = ()  # of the steps around its onset
    evidence: tuple[Reading, ...] = ()
    reason: str = ""
    verdict: str = ""  # two sentences and the numbers, for a person
    merged: int | None = None
    minor: bool = False
    skipped: bool = False
    cut: bool = False  # its attempt ended before it did

    @property
    def above_low(self) -> bool:
        """Whether it taints checkpoints."""
        return SEVERITIES.index(self.severity) > SEVERITIES.index("low")

    @property
    def live(self) -> bool:
        """Whether it still matters for what comes."""
        return self.stage != "closed" and self.merged is None


class Attempt(NamedTuple):
    """One start of the job."""

    number: int
    start_step: int
    checkpoint: str
    launched: float
    host: str = ""
    pid: int = 0
    parent: int = 0
    reached: int = 0
    left: int | None = None
    ended: Ended | None = None
    exited: Exited | None = None


class Entry(NamedTuple):
    """What is kept of a past step."""

    step: int
    lr: float | None
    shards: tuple[str, ...]
    seen: float | None = None  # tokens so far
    loss: float | None = None


class History(NamedTuple):
    """The newest steps of one attempt, in chunks so that adding one is cheap."""

    chunks: tuple[tuple[Entry, ...], ...] = ()
    tail: tuple[Entry, ...] = ()

    def add(self, entry: Entry) -> "History":
        """With one more step; the oldest chunk goes."""
        tail = (*self.tail, entry)
        return made(History, (self.chunks, tail)) if len(tail) < 64 else History((*self.chunks[-63:], tail), ())

    def between(self, low: int, high: int) -> tuple[Entry, ...]:
        """The entries of steps low..high that are still kept."""
        return tuple(e for chunk in (*self.chunks, self.tail) for e in chunk if low <= e.step <= high)


class Ordered(NamedTuple):
    """An action that was decided, what became of it, and what the metrics said afterwards."""

    action: Action
    applied: bool
    status: Literal["ordered", "done", "failed", "confirmed", "refuted", "unverifiable"] = "ordered"
    detail: str = ""
    absent: int = 0  # records in a row that did not hold the value at all
    seen: int = 0
    wrong: int = 0
    tries: int = 0
    since: float = 0.0  # when it was applied


class Snapshot(NamedTuple):
    """The watch as it stood when a checkpoint was saved."""

    attempt: int
    step: int
    watch: Watch


class Levels(NamedTuple):
    """What is wished for now, in absolutes: directives and launches are made of it."""

    cuts: tuple[Cut, ...] = ()
    clip_scale: float = 1.0
    windows: tuple[tuple[int, int], ...] = ()  # steps whose batches are left out where shards have no names
    override: tuple[str, ...] = ()  # words added to the job's command
    reset_at: int = -1  # the checkpoint's step whose optimizer moments are left behind at a resume
    save: int = 0
    dense_until: int = 0
    quarantine: tuple[LeftOut, ...] = ()
    hosts: tuple[str, ...] = ()  # left out


class Counts(NamedTuple):
    """What the limits are counted on."""

    rollbacks: tuple[int, ...] = ()  # the frontier at each
    relaunches: int = 0  # since progress
    failures: tuple[tuple[str, int], ...] = ()  # since progress, by cause
    progress: int = 0  # the highest step of a complete checkpoint


class Silence(NamedTuple):
    """A planned disturbance: until which step a bounded rise is forgiven, and who said so."""

    until: int
    author: str
    why: str


class State(NamedTuple):
    """Everything known of a run."""

    # What every step changes, first: see `stepped`.
    watch: Watch
    step: int = 0
    frontier: int = 0
    time: float = 0.0
    moved: float | None = None  # when this attempt's newest step came
    pace: float = 0.0  # the longest gap between two steps so far
    history: History = History()
    status: Status = "starting"
    attempt: int = 0
    before: History = History()
    attempts: tuple[Attempt, ...] = ()
    incidents: tuple[Incident, ...] = ()
    current: int | None = None  # the incident whose excursion is open
    waiting: tuple[int, ...] = ()  # incidents that want an answer
    actions: tuple[Ordered, ...] = ()
    pending: int = 0  # applied actions that have no outcome yet
    unproved: tuple[int, ...] = ()  # actions done whose effect the metrics have not shown yet
    decisions: int = 0
    checkpoints: tuple[Checkpoint, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    evals: tuple[tuple[str, int, int, float | None], ...] = ()  # name, attempt, step, value
    levels: Levels = Levels()
    counts: Counts = Counts()
    total: int | None = None
    shards_total: int | None = None
    hook: bool = False
    skips: bool = False  # whether the job's command can leave out steps
    hung: int = 0  # the attempt that was declared hung
    stop: str = ""  # the operator's stop, or the cluster's
    preempted: bool = False  # the stop is the cluster's: save, and be back
    orders: tuple[Order, ...] = ()  # an operator's words that wait for their answer
    silences: tuple[Silence, ...] = ()
    hosts: tuple[str, ...] = ()  # of the ranks, as the trainer names them
    world_size: int | None = None
    not_before: float = 0.0  # the backoff: no relaunch earlier
    why: str = ""  # of a final status
    proposed: tuple[tuple[int, float], ...] = ()  # incidents whose answer awaits a yes, and until when
    approved: tuple[int, ...] = ()
    epoch: int = 0
    pins: tuple[int, ...] = ()  # steps whose checkpoints an operator keeps
    room: Room | None = None
    off: int = 0  # records in a row whose rate was not the planned one
    looks: int = 0  # records of this attempt that are still asked whether its data go on
    batches: tuple[Read, ...] = ()  # the newest of this attempt, where the trainer tells of them


Hot: TypeAlias = tuple[Watch, int, int, float, float | None, float, History]
HOT = 7  # fields that every step changes


def hot(state: State) -> Hot:
    """The fields that every step changes: the first ones."""
    return state[:HOT]  # type: ignore[return-value]


def stepped(state: State, changed: Hot) -> State:
    """The state with its first fields replaced: the road of every step, where `_replace` would cost the most."""
    return made(State, changed + state[HOT:])


def first(rules: Rules) -> State:
    """Before any fact."""
    return State(watch=first_watch(rules))


def move(state: State, happened: str, why: str = "") -> State:
    """The status table."""
    status = STATUS.get((state.status, happened), state.status)
    return state._replace(status=status, why=why or state.why) if status != state.status else state


def put(state: State, incident: Incident) -> State:
    """With an incident added or replaced."""
    known = state.incidents
    at = next((i for i in range(len(known) - 1, -1, -1) if known[i].id == incident.id), None)
    if at is None:
        return state._replace(incidents=(*known, incident)[-MAX_INCIDENTS:])
    return state._replace(incidents=(*known[:at], incident, *known[at + 1 :]))


def find(state: State, number: int | None) -> Incident | None:
    """An incident by number."""
    return next((i for i in reversed(state.incidents) if i.id == number), None)


def attempt_of(state: State, number: int) -> Attempt | None:
    """An attempt by number."""
    return next((a for a in reversed(state.attempts) if a.number == number), None)


def branch(state: State) -> dict[int, int]:
    """The attempts the current one descends from, each with the last step that still counts on it."""
    found: dict[int, int] = {}
    number, limit = state.attempt, 1 << 62
    while (attempt := attempt_of(state, number)) is not None and number not in found:
        found[number] = limit
        limit, number = attempt.start_step, attempt.parent
    return found


class Situation(NamedTuple):
    """What an action is planned in: `draft` holds the actions of the same rung planned before it."""

    rules: Rules
    state: State
    incident: Incident
    draft: tuple[Action, ...] = ()

    def earlier(self, verb: Verb) -> Action | None:
        """The action of the same rung with this verb."""
        return next((action for action in reversed(self.draft) if action.verb == verb), None)

    def action(self, verb: Verb, why: str = "") -> Action:
        """A new action of this incident, to be filled in; its number is given by decide."""
        return Action(0, verb, self.incident.id, self.state.attempt, self.state.step, why)


def staged(incident: Incident, happened: str) -> Incident:
    """The stage table."""
    return incident._replace(stage=STAGE.get((incident.stage, happened), incident.stage))


def want(state: State, number: int) -> State:
    return state if number in state.waiting else state._replace(waiting=(*state.waiting, number))
