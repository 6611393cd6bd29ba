"""A supervised run: the parts of the hook put together around the trainer's steps."""

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.optim import Optimizer

from orchestrator import wire
from orchestrator.core.schedule import lr_scale
from orchestrator.training import saving
from orchestrator.training.cadence import Cadence
from orchestrator.training.data import quarantined
from orchestrator.training.gathered import Gathered
from orchestrator.training.guard import UNDONE, Guard, Manner
from orchestrator.training.inbox import Inbox
from orchestrator.training.link import link
from orchestrator.training.meeting import Place, Terms, meet
from orchestrator.training.orders import NOW, SAVE, Desk, Orders
from orchestrator.training.ranks import Shards
from orchestrator.training.replicas import Replicas
from orchestrator.training.run import Batch, Run
from orchestrator.training.seen import Seen, number
from orchestrator.training.shield import TELEMETRY, Shield, warn
from orchestrator.training.solo import Solo
from orchestrator.training.stream import Stream
from orchestrator.training.target import below
from orchestrator.training.team import Parts, Team

LETTING_GO = 0.05  # seconds
PENDING_LIMIT = 120.0  # seconds that a planned end waits for a checkpoint still being written


class Sizes(NamedTuple):
    """How large the run is, where the trainer tells: its steps, and the shards of its data."""

    total: int | None = None
    shards: int | None = None


class Live(Run):
    """The run of a process that has a supervisor; what a trainer calls is described at `Run`."""

    supervised = True
    _reset = False  # the optimizer's moments were left behind

    def __init__(self, place: Place, optimizers: Sequence[Optimizer], model: Any, manner: Manner, sizes: Sizes) -> None:
        self._place, self._optimizers, self._model = place, optimizers, model
        self.quarantine = quarantined()
        self._total, self._shards_total = sizes
        self._shield = Shield()
        self._stream = Stream(wire.telemetry_file(place.run_dir, place.attempt, place.rank))
        self.guard = Guard(optimizers, self._shield, manner, self._join, self._name_of)
        self._names: dict[int, str] | None = None
        self._cadence = Cadence(None)
        self._voice: Solo | Team
        self._joined = False
        self._terms = Terms()
        self._start, self._last = 0, 0
        self._announced = self._ended = self._leaving = False
        self._obeyed: Orders | None = None
        self._busy = False  # something must be looked at in every step, whatever is ordered
        self._pending: tuple[int, str, bool | None, saving.Pending] | None = None
        self._group: Any = None
        if dist.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) == 1:
            self._join()
        atexit.register(self._at_exit)

    # Joining waits for the job's process group; every rank gets there at the same call.

    def _join(self) -> None:
        if not self._joined:
            self._terms = self._shield.run("start", meet, self._place) or Terms()
            self.guard.follow(self._terms.policy)
            self._cadence = Cadence(self._terms.policy)
            self._voice, self._joined = self._speak(), True
            self._begin(self._start)

    def _speak(self) -> Solo | Team:
        desk = None
        if self._place.rank == 0:
            inbox = Inbox(self._place.folder / wire.DIRECTIVE, self._place.attempt, self._terms.directive)
            desk = Desk(inbox, self._cadence)
        device = next(p.device for o in self._optimizers for g in o.param_groups for p in g["params"])
        if self._terms.world == 1 and device.type == "cpu" and desk is not None:
            return Solo(self._shield, self._stream, desk)
        shards = Shards(self._place.run_dir, self._place.attempt)
        exchange = link(self._place.rank, self._terms.world, device)
        gathered = Gathered(shards, Replicas(self._optimizers))
        return Team(self._shield, self._stream, desk, Parts(exchange, gathered))

    def _begin(self, step: int) -> None:
        self._start = self._last = step
        if step and os.environ.pop(wire.RESET_MOMENTS, ""):
            self._reset = True
            for optimizer in self._optimizers:
                optimizer.state.clear()
        self._cadence.begin(step)
        first = self._terms.directive
        scale = lr_scale(first.cuts, step + 1)
        self.guard.arm(step + 1, scale, first.clip_scale)
        if self._joined:
            self._voice.standing = Orders(scale, first.clip_scale)

    # What the trainer calls.

    def restore(self, state: dict[str, Any]) -> int:
        self._join()
        path = os.environ.get(wire.RESUME, "")
        step = saving.read(path, state) if path else 0
        self.guard.take()
        self._begin(step)
        return step

    def begin(self, step: int, total: int | None = None) -> None:
        self._join()
        self._total = self._total if total is None else total
        self._begin(step)
        self._announce(step)

    def finish(self) -> None:
        self._close(True)

    def steps(self, loader: Iterable[Batch], start: int = 0, total: int | None = None) -> Iterator[tuple[int, Batch]]:
        self.begin(start, total)
        over = False
        try:
            yield from super().steps(loader, start, total)
            over = total is None
        finally:
            self._close(over)

    def step(self, step: int, *, loss: Any = None, shards: Sequence[str] = (), **fields: Any) -> None:
        if not self._announced:
            self._join()
            self._announce(step - 1)
        self._last = step
        # What every step does is written out: between tensor operations a call runs cold and costs microseconds.
        guard, voice, calm = self.guard, self._voice, False
        done, guard.done, guard.step = guard.done, None, step + 1
        seen: Seen = (step, 0.0, None, (), fields, UNDONE)
        if TELEMETRY not in self._shield.asleep:
            try:
                done = done or guard.take()
                if isinstance(loss, torch.Tensor):
                    loss = loss.item() if voice.reads else loss.detach()
                seen = (step, time.time(), loss, tuple(shards), fields, done)
                # x - x is 0 for finite x only.
                calm = not voice.reads or (not done[1][3] and (loss is None or loss - loss == 0.0))
            except Exception as error:  # noqa: BLE001  the trainer is kept from our faults
                self._shield.failed(TELEMETRY, error)
        voice.held.append(seen)
        if calm and step < voice.until and time.monotonic() < voice.due and not self._busy:
            return
        orders = voice.report(step, fields, calm)
        if self._busy or orders is not self._obeyed:
            self._obey(orders)

    def eval(self, step: int, **values: Any) -> None:
        if self._place.rank == 0:
            self._shield.run("evaluations", self._tell_values, step, values)

    def save(self, step: int, state: dict[str, Any], *, wait: bool = True) -> None:
        self._join()
        self._settle(PENDING_LIMIT)
        path = below(self.folder(), f"step-{step}")
        self._tell(step, path, "started")
        began = time.monotonic()
        finite = self._finite()
        write = self._write if wait else self._write_later
        why = self._shield.run(f"checkpoint of step {step}", write, step, path, state, finite)
        cost = time.monotonic() - began
        if why == "" and wait:
            self._kept(step, path, finite, cost)
        elif why == "":
            self._cadence.saved(step, cost)
        else:
            self._tell(step, path, "failed", why=why or "it cannot be saved; the trainer's output says why")
        self._leave()

    def saved(self, step: int, path: str | Path) -> None:
        self._join()
        self._kept(step, str(path), self._finite(), None)
        self._leave()

    # Orders.

    def _obey(self, orders: Orders) -> None:
        self._settle()
        self._leave()  # the last checkpoint was due at the step before
        self._obeyed = orders
        self.guard.scale(orders.scale, orders.clip_scale)
        self.checkpoint_due = orders.due
        if orders.stop == NOW:
            self.stop_requested, self.checkpoint_due = True, False
            self._pending = None  # whatever it holds is not worth the wait
        elif orders.stop == SAVE and not self.stop_requested:
            self.checkpoint_due = self._leaving = True
        self._busy = self.checkpoint_due or self._leaving or self._pending is not None

    def _leave(self) -> None:
        if self._leaving:
            self.stop_requested = True
            self.checkpoint_due = False

    # Checkpoints.

    def folder(self) -> str:
        """Where this run's checkpoints are expected."""
        return _root(self._place.run_dir)

    def _write(self, step: int, path: str, state: dict[str, Any], finite: bool | None) -> str:
        return self._tried(step, lambda: saving.write(path, state, self._marker(step, finite)))

    def _write_later(self, step: int, path: str, state: dict[str, Any], finite: bool | None) -> str:
        self._group = self._group or saving.joined()

        def begin() -> None:
            pending = saving.write_later(path, state, self._marker(step, finite), self._group)
            self._pending, self._busy = (step, path, finite, pending), True

        return self._tried(step, begin)

    def _settle(self, within: float = 0.0) -> None:
        """Tell of the checkpoint that was being written once it is durable; wait so many seconds for it."""
        if self._pending is None or not (within or self._pending[3].done()):
            return
        (step, path, finite, pending), self._pending = self._pending, None
        why = self._shield.run(f"checkpoint of step {step}", self._tried, step, lambda: pending.finish(within))
        if why == "":
            self._say_saved(step, path, finite)
        else:
            self._tell(step, path, "failed", why=why or "it could not be finished")

    def _tried(self, step: int, write: Callable[[], object]) -> str:
        """Why a write failed, "" when it did not."""
        try:
            write()
        except (*saving.Failed, TimeoutError) as error:
            why = _reason(error)
            warn(f"the checkpoint of step {step} could not be written ({why}); training goes on")
            return why or type(error).__name__
        return ""

    def _marker(self, step: int, finite: bool | None) -> dict[str, Any]:
        marker: dict[str, Any] = {"step": step, "attempt": self._place.attempt, "world_size": self._terms.world}
        if run := os.environ.get(wire.RUN):
            marker["run"] = run
        return marker if finite is None else {**marker, "finite": finite}

    def _kept(self, step: int, path: str, finite: bool | None, cost: float | None) -> None:
        self._cadence.saved(step, cost)
        self._say_saved(step, path, finite, cost)

    def _say_saved(self, step: int, path: str, finite: bool | None, cost: float | None = None) -> None:
        extra: dict[str, Any] = {} if finite is None else {"finite": finite}
        if cost is not None:
            extra["seconds"] = round(cost, 3)
        self._tell(step, path, "saved", **extra)

    def _finite(self) -> bool | None:
        return None if self._model is None else self._shield.run("check of the weights", saving.finite, self._model)

    # Telemetry.

    def _name_of(self, parameter: torch.Tensor) -> str:
        if self._names is None:
            named = self._model.named_parameters() if hasattr(self._model, "named_parameters") else ()
            self._names = {id(value): name.removeprefix("module.") for name, value in named}
        return self._names.get(id(parameter), "")

    def _tell(self, step: int, path: str, state: str, **extra: Any) -> None:
        if self._place.rank == 0:
            message = {"type": "checkpoint", "step": step, "path": path, "state": state, "time": time.time()}
            self._stream.send({**message, **extra})

    def _tell_values(self, step: int, values: dict[str, Any]) -> None:
        for name, value in values.items():
            loss = number(value)
            self._stream.send({"type": "eval", "step": step, "name": name, "loss": loss, "time": time.time()})

    def _announce(self, start: int) -> None:
        self._announced, self._cadence.total = True, self._total
        if self._place.rank:
            return
        message = {
            "type": "run", "schema": wire.SCHEMA, "attempt": self._place.attempt, "world_size": self._terms.world,
            "start_step": start, "total_steps": self._total, "shards_total": self._shards_total,
            "hosts": list(self._terms.hosts), "hook": True, "time": time.time(),
            "reset_moments": self._reset or None,
        }  # fmt: skip
        self._stream.send({key: value for key, value in message.items() if value is not None})

    def _close(self, over: bool) -> None:
        self._settle(PENDING_LIMIT)
        if self._ended or not self._announced or not self._joined:
            return
        completed = over or (self._total is not None and self._last >= self._total)
        self._shield.run(TELEMETRY, self._voice.flush)
        if (completed or self.stop_requested) and self._place.rank == 0:
            self._ended = True
            status = "completed" if completed else "stopped"
            self._stream.send({"type": "end", "step": self._last, "status": status, "time": time.time()})

    def _at_exit(self) -> None:
        self._shield.run("end", self._close, False)
        if self._terms.world > 1:
            # A thread of the exchange lets go of what it sent after that has arrived, and takes the interpreter's lock
            # for it. One that asks for it later, while the interpreter ends, aborts the process.
            time.sleep(LETTING_GO)


def _root(run_dir: Path) -> str:
    return os.environ.get(wire.CHECKPOINTS) or str(run_dir / "checkpoints")


def _reason(error: BaseException) -> str:
    failures = getattr(error, "failures", None)
    if not failures:
        return str(error)
    rank, (cause, _) = next(iter(failures.items()))
    return f"rank {rank}: {cause}"
