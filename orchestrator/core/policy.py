"""What was promised: the one policy schema.

The dataclasses are the closed grammar: their fields are the keys of the YAML (a key that is a Python
keyword ends in an underscore here). Everything is frozen; lists are tuples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from orchestrator.core.facts import Verb
from orchestrator.core.units import Before, Cadence, Count, Fraction, Positive, Real, Seconds, Share, Steps

Mode: TypeAlias = Literal["observe", "propose", "act"]
Severity: TypeAlias = Literal["info", "low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "low", "medium", "high", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """How a learning-rate cut is given back: untouched for `after`, then linearly over `over`."""

    after: Steps
    over: Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One verb of a rung with what it takes; `{lr: 50%, recover: {...}}` in YAML."""

    verb: Verb
    factor: Fraction | None = None
    recover: Recover | None = None
    depth: Positive = 1
    shards: Literal["suspect window", "recurring"] | None = None
    words: tuple[str, ...] = ()

    @staticmethod
    def unfold(raw: object) -> dict[str, object]:
        """The fields of one response from its YAML: a word, or a mapping whose first key is the verb.

        >>> Response.unfold({"rollback": {"depth": 2}})
        {'verb': 'rollback', 'depth': 2}
        >>> Response.unfold({"lr": "50%"})
        {'verb': 'lr', 'factor': '50%'}
        """
        if isinstance(raw, str):
            return {"verb": raw}
        if not isinstance(raw, Mapping) or not raw:
            raise ValueError(f"write a verb or a mapping such as {{lr: 50%}}; got {raw!r}")
        (verb, value), *options = raw.items()
        fields: dict[str, object] = {"verb": verb, **dict(options)}
        if verb in ("lr", "clip"):
            fields["factor"] = value
        elif verb == "quarantine":
            fields["shards"] = value
        elif verb == "override":
            fields["words"] = value
        elif isinstance(value, Mapping):
            fields.update(value)
        elif value is not None:
            raise ValueError(f"{verb} takes no value; got {value!r}")
        return fields


Respond: TypeAlias = Annotated[Response, Before(Response.unfold)]
Ladder: TypeAlias = tuple[tuple[Respond, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """Linear warm-up over `for`, beginning at `from` times the peak."""

    for_: Steps
    from_: Real = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """From the peak at the end of warm-up to `to` of it at step `until`."""

    shape: Literal["cosine", "linear", "constant"] = "cosine"
    until: Steps
    to: Fraction = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The learning rate where the policy owns it."""

    peak: Real
    warmup: Warmup | None = None
    decay: Decay | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A data phase: where it ends, what its beginning changes, and what rise of the loss it may bring."""

    until: Steps | None = None
    lr: Share = 1.0
    rewarm: Steps | None = None
    clip: Real | None = None
    grace: Steps = 200
    rise: Share = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturated:
    """Clipping counts as saturated when it acts on more than `above` of the steps of a window."""

    above: Fraction = 0.5
    within: Steps = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """A limit from the last norms: their `quantile`, else `sigmas` standard deviations above their mean."""

    within: Positive = 200
    quantile: Fraction | None = None
    sigmas: Real = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The gradient norm's limit; null leaves clipping to the trainer. With `adaptive` the smaller one counts."""

    max_norm: Real | None = None
    adaptive: Adaptive | None = None
    saturated: Saturated = field(default_factory=Saturated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Denser:
    """A denser cadence after an incident."""

    every: Steps
    for_: Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Retention: the newest, the newest healthy ones, and one every so many steps."""

    last: Count = 2
    healthy: Count = 2
    every: Steps | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """When to save, what to keep, and what makes a checkpoint a rollback target."""

    every: Cadence = field(default_factory=lambda: Cadence(1000.0, "steps"))
    before_phase_switch: bool = True
    after_incident: Denser | None = None
    healthy_after: Steps = 300
    margin: Steps = 20
    eval_worse: Share = 0.02
    keep: Keep | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolated:
    """One to a few steps high, back to the old level."""

    severity: Severity = "low"
    respond: Ladder = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A second, tighter count of events."""

    events: Positive = 3
    within: Steps = 200
    above: Share = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """`events` excursions above `above` within `within`."""

    severity: Severity = "medium"
    events: Positive = 3
    within: Steps = 2000
    above: Share = 0.1
    burst: Burst | None = None
    forget: Steps = 20000
    respond: Ladder = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """What makes a rise a level: it holds `for` steps and `points` records, `above` the old level."""

    for_: Steps = 50
    points: Positive = 3
    above: Share = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Minor:
    """A rise below `below`, answered more gently."""

    below: Share = 0.03
    severity: Severity = "medium"
    respond: Ladder = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistent:
    """A level that does not come back."""

    severity: Severity = "high"
    confirm: Confirm = field(default_factory=Confirm)
    minor: Minor = field(default_factory=Minor)
    forget: Steps = 20000
    respond: Ladder = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skips:
    """How many updates the trainer may skip before it is more than a skip."""

    max: Count = 3
    per: Steps = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonfinite:
    """NaN or Inf in loss, gradients or weights."""

    severity: Severity = "critical"
    skips: Skips = field(default_factory=Skips)
    forget: Steps = 20000
    respond: Ladder = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLocal:
    """One rank is odd against its peers and its own past."""

    severity: Severity = "medium"
    forget: Steps = 20000
    respond: Ladder = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spikes:
    """The five classes and their answers."""

    isolated: Isolated = field(default_factory=Isolated)
    repeated: Repeated = field(default_factory=Repeated)
    persistent: Persistent = field(default_factory=Persistent)
    nonfinite: Nonfinite = field(default_factory=Nonfinite)
    rank_local: RankLocal = field(default_factory=RankLocal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure that is no spike: how often it is answered without progress between, and with what."""

    severity: Severity = "high"
    max: Count = 3
    respond: tuple[Respond, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang(Failure):
    """No step for a time: given, or learned from the job's own pace."""

    after: Seconds | Literal["auto"] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """What is not a spike."""

    crash: Failure = field(default_factory=Failure)
    hang: Hang = field(default_factory=Hang)
    oom: Failure = field(default_factory=Failure)
    disk_full: Failure = field(default_factory=Failure)
    preemption: Failure = field(default_factory=Failure)
    host: Failure = field(default_factory=Failure)
    # A cut that the metrics refute is no cut: what was to protect the run does not, so a person decides.
    lr_mismatch: Failure = field(default_factory=lambda: Failure(respond=(Response(verb="hold"),)))
    resume_mismatch: Failure = field(default_factory=lambda: Failure(respond=(Response(verb="record"),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollbacks:
    """At most `max` rollbacks in `per` steps of the frontier."""

    max: Count = 3
    per: Steps = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaunches:
    """At most `max` relaunches; with `refill: on progress` the count begins anew at each new frontier checkpoint."""

    max: Count = 10
    refill: Literal["on progress", "never"] = "on progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineLimit:
    """How much of the data may be left out, and for how long."""

    max_share: Fraction = 0.01
    expires: Steps | None = 20000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What no sequence of events may exceed."""

    rollbacks: Rollbacks = field(default_factory=Rollbacks)
    relaunches: Relaunches = field(default_factory=Relaunches)
    lr_floor: Fraction = 0.05
    clip_floor: Real = 0.1
    quarantine: QuarantineLimit = field(default_factory=QuarantineLimit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """In `propose` mode: how long to wait for a yes, and what then."""

    wait: Seconds = 1800.0
    then: Literal["hold", "act", "record"] = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A whole policy, `extends` already followed."""

    version: Literal[1] = 1
    mode: Mode = "act"
    propose: Propose = field(default_factory=Propose)
    schedule: Schedule | None = None
    phases: Mapping[str, Phase] = field(default_factory=dict)
    clip: Clip = field(default_factory=Clip)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    detectors: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    spikes: Spikes = field(default_factory=Spikes)
    failures: Failures = field(default_factory=Failures)
    limits: Limits = field(default_factory=Limits)
