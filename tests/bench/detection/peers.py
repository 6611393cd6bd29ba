"""Other people's detectors, each with its own defaults on its own natural signal, one record at a time.

A peer that is not installed raises ModuleNotFoundError when it is started. The three rules marked
re-typed live inside trainers that cannot be installed alone; they are written anew after their
descriptions.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from labels import Run

from orchestrator import wire


class Point(NamedTuple):
    """One record as a peer sees it; None where the log has no value."""

    number: int
    loss: float | None
    grad_norm: float | None


Watch: TypeAlias = Callable[[Point], bool]


class Peer(NamedTuple):
    """A row of the table; `start` gives a fresh detector, which returns whether it fires."""

    name: str
    signal: str
    start: Callable[[], Watch]


def points(run: Run) -> tuple[list[int], list[Point]]:
    """The steps of a run's records, and the records as points."""
    steps = [m for m in run.messages if m["type"] == "step"]
    seen = [Point(k, wire.number(m.get("loss")), wire.number(m.get("grad_norm"))) for k, m in enumerate(steps)]
    return [m["step"] for m in steps], seen


def on_loss(check: Callable[[int, float], bool]) -> Watch:
    """A rule on the loss alone; it is not asked where there is none."""
    return lambda p: p.loss is not None and check(p.number, p.loss)


def on_grad_norm(check: Callable[[float], bool]) -> Watch:
    """A rule on the grad norm alone."""
    return lambda p: p.grad_norm is not None and check(p.grad_norm)


def lightning() -> Watch:
    import torch
    from lightning.fabric.utilities.spike import SpikeDetection, TrainingSpikeException

    class Strategy:
        root_device = torch.device("cpu")

        def barrier(self) -> None: ...

        def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
            return decision

    class Fabric:
        strategy, global_rank = Strategy(), 1  # a rank other than 0 writes no file

    detector, fabric = SpikeDetection(exclude_batches_path="unused.json"), Fabric()

    def check(number: int, loss: float) -> bool:
        try:
            detector.on_train_batch_end(fabric, torch.tensor(loss), None, number)
        except TrainingSpikeException:
            return True
        return False

    return on_loss(check)


def olmo_skip_step() -> Watch:
    import torch
    from olmo_core.optim import SkipStepAdamW

    optimizer = SkipStepAdamW([torch.nn.Parameter(torch.zeros(2))])

    def watch(p: Point) -> bool:
        if p.loss is None or p.grad_norm is None:
            return False
        optimizer.latest_loss = torch.tensor(p.loss)
        optimizer.latest_grad_norm = torch.tensor(p.grad_norm)
        return bool(optimizer.get_step_factor() == 0)

    return watch


def olmo_monitor() -> Watch:
    from olmo_core.train.callbacks.stability_monitor import StabilityMonitorCallback

    monitor = StabilityMonitorCallback()
    names = (monitor.loss_metric_name, monitor.grad_norm_metric_name)

    def watch(p: Point) -> bool:
        values = zip(names, (p.loss, p.grad_norm), strict=True)
        before = monitor._total_spike_count
        monitor.pre_log_metrics(p.number, {name: value for name, value in values if value is not None})
        return bool(monitor._total_spike_count > before)

    return watch


def zclip() -> Watch:
    import torch
    from zclip import ZClip

    clip, model = ZClip(), torch.nn.Linear(1, 1, bias=False)

    def check(grad_norm: float) -> bool:
        fires = bool(clip.initialized and clip._compute_clip_val(grad_norm) is not None)
        model.weight.grad = torch.full((1, 1), grad_norm)
        clip.step(model)
        return fires

    return on_grad_norm(check)


def trainscope_changepoint() -> Watch:
    from trainscope.core.detectors.changepoint import ChangePointDetector

    detector = ChangePointDetector()
    return on_loss(lambda _, loss: detector.update(loss) is not None)


def trainscope_z_score() -> Watch:
    from trainscope.core.detectors.z_score import ZScoreDetector

    detector = ZScoreDetector()
    return on_loss(lambda _, loss: detector.update(loss) is not None)


def trainpulse() -> Watch:
    from trainpulse.detectors import LossSpikeDetector, NaNDetector

    spike, nan = LossSpikeDetector(), NaNDetector()
    return on_loss(lambda n, x: (nan.check(n, "loss", x) or spike.check(n, x)) is not None)


def stabilityguard() -> Watch:
    from stabilityguard.core.spike_detector import SpikeDetector

    detector = SpikeDetector()

    def check(grad_norm: float) -> bool:
        odd = set() if math.isfinite(grad_norm) else {"all"}
        return bool(detector.check({"all": grad_norm}, odd)[0])

    return on_grad_norm(check)


def guarftrain() -> Watch:
    from guardian.monitor import TrainingMonitor

    monitor: Any = TrainingMonitor()

    def check(number: int, loss: float) -> bool:
        # Its third rule, stagnation, speaks of slow progress and is no alarm of this kind.
        return any(e.type in ("nan_inf", "loss_spike") for e in monitor._check({"loss": loss, "step": number}))

    return on_loss(check)


def metaseq() -> Watch:
    """Re-typed: loss against its mean with weight 0.2 for the newest; a spike does not enter the mean."""
    mean: float | None = None

    def check(_: int, loss: float) -> bool:
        nonlocal mean
        if mean is not None and loss / mean > 1.5:
            return True
        mean = loss if mean is None else 0.2 * loss + 0.8 * mean
        return False

    return on_loss(check)


def flagscale() -> Watch:
    """Re-typed: 20 % above the last loss that was no spike."""
    last: float | None = None

    def check(_: int, loss: float) -> bool:
        nonlocal last
        if last is not None and (loss - last) / last >= 0.2:
            return True
        last = loss if math.isfinite(loss) and loss else None
        return False

    return on_loss(check)


def internevo() -> Watch:
    """Re-typed: one and a half times the loss of the step before."""
    last = math.inf

    def check(_: int, loss: float) -> bool:
        nonlocal last
        fires, last = loss > 1.5 * last, loss
        return fires

    return on_loss(check)


PEERS = (
    Peer("Lightning SpikeDetection", "loss", lightning),
    Peer("OLMo-core SkipStepAdamW", "loss, grad norm", olmo_skip_step),
    Peer("OLMo-core StabilityMonitor", "loss, grad norm", olmo_monitor),
    Peer("ZClip", "grad norm", zclip),
    Peer("trainscope change point", "loss", trainscope_changepoint),
    Peer("trainscope z-score", "loss", trainscope_z_score),
    Peer("trainpulse", "loss", trainpulse),
    Peer("StabilityGuard", "grad norm", stabilityguard),
    Peer("guarftrain", "loss", guarftrain),
    Peer("metaseq rule, re-typed", "loss", metaseq),
    Peer("FlagScale rule, re-typed", "loss", flagscale),
    Peer("InternEvo rule, re-typed", "loss", internevo),
)
