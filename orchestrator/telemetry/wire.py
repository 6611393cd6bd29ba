"""The wire: the messages of our own hook, JSON lines (see orchestrator.wire).

This is the path of every record of a supervised run and of a replay, so messages are decoded straight
into structs and a step without anything odd is built without a look at its single values.
"""

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from orchestrator import wire
from orchestrator.core.facts import (
    Announced,
    Batch,
    Checkpoint,
    Ended,
    Eval,
    Fact,
    Ranks,
    Step,
    made,
    ranks_of,
    step_of,
)
from orchestrator.telemetry._attempts import Attempts
from orchestrator.telemetry._line import unmask

IDS, ID_LENGTH = 16, 80  # ids of a batch that are kept, and characters of each

Number: TypeAlias = float | str | None
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Run(msgspec.Struct, tag="run"):
    attempt: int | None = None
    world_size: int | None = None
    start_step: int = 0
    total_steps: int | None = None
    shards_total: int | None = None
    hosts: tuple[str, ...] = ()
    hook: bool = False
    time: float = 0.0
    reset_moments: bool = False


class Spread(msgspec.Struct):
    median: Number = None
    mad: Number = None
    odd: dict[int, Number] = {}


class Peers(msgspec.Struct):
    n: int = 0
    loss: list[Number] | Spread | None = None
    grad_norm: list[Number] | Spread | None = None


class Record(msgspec.Struct, tag="step"):
    step: Count
    time: float = 0.0
    loss: Number = None
    grad_norm: Number = None
    lr: Number = None
    clip: Number = None
    loss_scale: Number = None
    tokens: Number = None
    tokens_seen: Number = None
    update_norm: Number = None
    param_norm: Number = None
    nonfinite: float | None = 0
    skipped: bool = False
    phase: str | int | None = None
    shards: tuple[str, ...] = ()
    ranks: Peers | None = None
    replicas_odd: tuple[int, ...] = ()
    nonfinite_names: tuple[str, ...] = ()
    nonfinite_module: str = ""
    batch: Any = None


class Evaluation(msgspec.Struct, tag="eval"):
    step: Count
    name: str = "val"
    loss: Number = None
    time: float = 0.0


class Saved(msgspec.Struct, tag="checkpoint"):
    step: Count
    path: str = ""
    state: Literal["started", "saved", "failed"] = "saved"
    why: str = ""
    time: float = 0.0
    seconds: float | None = None
    finite: bool | None = None


class End(msgspec.Struct, tag="end"):
    step: Count
    status: str = "completed"
    time: float = 0.0


class Shard(msgspec.Struct, tag="shard"):
    """A shard's name, told once by its rank: of use to the trainer's own readers only."""


Message: TypeAlias = Run | Record | Evaluation | Saved | End | Shard
_decode = msgspec.json.Decoder(Message).decode
_WRONG = (msgspec.MsgspecError, ValueError, RecursionError)


def _message(line: bytes) -> Message:
    try:
        return _decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"NaN" in line or b"Infinity" in line:  # JSON as Python and JavaScript write it
            return msgspec.convert(json.loads(line), Message)  # type: ignore[no-any-return]
        raise


class WireParser:
    """Facts of one attempt's stream; the `run` message names the attempt, steps that fall back begin the next."""

    def __init__(self, attempt: int) -> None:
        self.skipped = 0
        self._attempts = Attempts(attempt)
        self._begun = False

    def feed(self, line: bytes) -> Sequence[Fact]:
        try:
            message = _message(line)
            if isinstance(message, Record):
                return self._record(message)
            return self._other(message)
        except _WRONG:
            self.skipped += 1
            return ()

    def close(self) -> Sequence[Fact]:
        return ()

    def _record(self, record: Record) -> Sequence[Fact]:
        opening = self._attempts.place(record.step)
        if opening is None:
            return ()
        self._begun = True
        step = _step(self._attempts.attempt, record)
        return (*opening, step) if opening else (step,)

    def _other(self, message: Message) -> Sequence[Fact]:
        attempt = self._attempts.attempt
        match message:
            case Run():
                return (self._run(message),)
            case Evaluation():
                return (Eval(attempt, message.step, message.name, _finite(message.loss), message.time),)
            case Saved():
                return (_saved(attempt, message),)
            case End():
                return (Ended(attempt, message.step, message.status, message.time),)
        return ()

    def _run(self, run: Run) -> Announced:
        last = self._attempts.attempt
        attempt = last if run.attempt is None else run.attempt
        if self._begun and attempt <= last:  # the text of a second start that numbers itself like the first
            attempt = last + 1
        self._attempts = Attempts(attempt)
        self._begun = False
        return Announced(
            attempt, run.start_step, run.total_steps, run.world_size, run.shards_total, run.hosts, run.hook, run.time,
            reset=run.reset_moments,
        )  # fmt: skip


def _step(attempt: int, m: Record) -> Step:
    """Its single values are looked at only where their sum is not finite: almost never."""
    total: Any = m.loss or 0.0
    try:
        total = total + (m.grad_norm or 0.0) + (m.lr or 0.0) + (m.clip or 0.0) + (m.loss_scale or 0.0)
        total = total + (m.tokens or 0.0) + (m.tokens_seen or 0.0) + (m.update_norm or 0.0) + (m.param_norm or 0.0)
        plain = math.isfinite(total) and not m.nonfinite
    except TypeError:  # a word among the numbers
        plain = False
    if not plain:
        return _odd_step(attempt, m)
    ranks = None if m.ranks is None else _ranks(m.ranks)
    phase = m.phase if m.phase.__class__ is not int else str(m.phase)
    batch = None if m.batch is None else _batch(m.batch)
    fields = (
        attempt, m.step, m.time, m.loss, m.grad_norm, m.lr, (), m.skipped, phase, m.shards, ranks, m.clip,
        m.loss_scale, m.tokens, m.tokens_seen, m.update_norm, m.param_norm, m.replicas_odd,
        m.nonfinite_names, m.nonfinite_module, batch,
    )  # fmt: skip
    return made(Step, fields)


def _batch(told: Any) -> Batch | None:
    """What a trainer tells of a batch, in whatever shape; of many ids only the first are kept."""
    if not isinstance(told, dict):
        return None
    ids = told.get("ids")
    ids = ids if isinstance(ids, list) else [] if ids is None else [ids]
    kept = tuple(str(each)[:ID_LENGTH] for each in ids[:IDS])
    batch = Batch(kept, len(ids) - len(kept), _finite(told.get("max_len")), _finite(told.get("loss_tokens")))
    return batch if batch != Batch() else None


def _saved(attempt: int, m: Saved) -> Checkpoint:
    if m.state == "saved" and m.finite is False:
        return Checkpoint(attempt, m.step, m.path, "corrupt", "its weights are not finite", m.time)
    return Checkpoint(attempt, m.step, m.path, m.state, m.why, m.time, _finite(m.seconds))


def _odd_step(attempt: int, m: Record) -> Step:
    names = ("loss", "grad_norm", "lr", "clip", "loss_scale", "tokens", "tokens_seen", "update_norm", "param_norm")
    values = {name: wire.number(getattr(m, name)) for name in names}
    ranks = None if m.ranks is None else _ranks(m.ranks)
    phase = None if m.phase is None else str(m.phase)
    step = step_of(
        attempt, m.step, unmask(values), time=m.time, skipped=m.skipped, phase=phase, shards=m.shards, ranks=ranks,
        replicas_odd=m.replicas_odd, parameters=m.nonfinite_names, module=m.nonfinite_module,
        batch=None if m.batch is None else _batch(m.batch),
    )  # fmt: skip
    if m.nonfinite and "grad_norm" not in step.nonfinite:
        step = step._replace(nonfinite=(*step.nonfinite, "grad_norm"))
    return step


def _finite(value: Number) -> float | None:
    known = wire.number(value)
    return known if known is not None and math.isfinite(known) else None


def _ranks(peers: Peers) -> Ranks:
    loss, norm = peers.loss, peers.grad_norm
    if not isinstance(loss, Spread) and not isinstance(norm, Spread):
        return ranks_of(_listed(loss), _listed(norm))
    of_loss = loss if isinstance(loss, Spread) else Spread()
    spreads = [spread for spread in (loss, norm) if isinstance(spread, Spread)]
    odd = [(rank, known) for rank, value in of_loss.odd.items() if (known := _finite(value)) is not None]
    words = {rank for spread in spreads for rank, value in spread.odd.items() if _wrong(value)}
    return Ranks(
        peers.n,
        median=_finite(of_loss.median),
        mad=_finite(of_loss.mad),
        odd=tuple(sorted(odd)),
        nonfinite=tuple(sorted(words)),
    )


def _wrong(value: Number) -> bool:
    known = wire.number(value)
    return known is not None and not math.isfinite(known)


def _listed(values: list[Number] | Spread | None) -> list[float | None]:
    return [wire.number(value) for value in values] if isinstance(values, list) else []


def parser(attempt: int) -> WireParser:
    return WireParser(attempt)
