"""PyTorch Lightning: one line, `orchestrator.training.lightning.attach(trainer)`, before `trainer.fit(...)`.

A callback tells every optimizer step (`global_step`) and validation, saves and stops on demand; `fit` resumes from the
checkpoint that the supervisor names. Gradients are judged in `on_before_optimizer_step`, because Lightning runs the
backward pass inside `optimizer.step`; the trainer's own `gradient_clip_val` still counts after the policy's limit.
With FSDP (the first) and DeepSpeed gradients are cut in ways only the strategy knows: no guard, no limit of ours.
The trainer's own ModelCheckpoint files are left alone and not reported; ours are `step=N.ckpt` below the run's root.
"""

import os
from typing import Any

from lightning.pytorch import Callback

from orchestrator import wire
from orchestrator.training.hook import attach_unhooked, innermost
from orchestrator.training.run import Run

_OPAQUE = ("FSDPStrategy", "DeepSpeedStrategy")


def attach(trainer: Any, *, shards_total: int | None = None, trace: bool = False) -> "Supervision":
    """Put the callback into a Trainer; without a supervisor nothing of the trainer is changed.

    Batches that are mappings may tell their shards under the key `shards`, a list of names.
    `trace` as in plain `attach`.
    """
    callback = Supervision(shards_total=shards_total, trace=trace)
    if os.environ.get(wire.RUN_DIR):
        trainer.callbacks.insert(0, callback)
        trainer.fit = _resuming(trainer.fit)
    return callback


class Supervision(Callback):  # type: ignore[misc]
    """What a Trainer tells the supervisor, and what it is told."""

    def __init__(self, **options: Any) -> None:
        self.run = Run()
        self._options = options
        self._shards: dict[str, None] = {}
        self._judge: Any = None
        self._loss: Any = None
        self._last = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach: the optimizers stand, and have their state back from the checkpoint."""
        self.run = attach_unhooked(trainer.optimizers, pl_module, **self._options)
        guard = getattr(self.run, "guard", None)
        if guard is not None and type(trainer.strategy).__name__ not in _OPAQUE:
            self._judge = guard.judge
        total = trainer.estimated_stepping_batches
        self._last = trainer.global_step
        self.run.begin(self._last, int(total) if total != float("inf") else None)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """The gradients are whole and unscaled, and not clipped yet."""
        if self._judge is not None:
            self._judge(innermost(optimizer))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Report the step once all its micro-batches are done, take orders."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self._loss = loss.detach() if self._loss is None else self._loss + loss.detach()
        if isinstance(batch, dict):
            self._shards.update(dict.fromkeys(batch.get("shards", ())))
        step = trainer.global_step
        if step == self._last:
            return
        loss, shards = self._loss, list(self._shards)
        self._loss, self._shards, self._last = None, {}, step
        self.run.step(step, loss=loss, shards=shards)
        if self.run.checkpoint_due:
            self._save(trainer, step)
        if self.run.stop_requested:
            trainer.should_stop = True

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Report the losses that were logged under names such as `val_loss`."""
        if trainer.sanity_checking:
            return
        found = {name: value for name, value in trainer.callback_metrics.items() if "val" in name and "loss" in name}
        for name, value in found.items():
            self.run.eval(trainer.global_step, **{name.replace("_loss", "").replace("/loss", ""): value})

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """A loop that nobody stopped is complete, early stopping included."""
        if not self.run.stop_requested:
            self.run.finish()

    def _save(self, trainer: Any, step: int) -> None:
        folder = self.run.folder()
        if folder is not None:
            path = f"{folder}/step={step}.ckpt"
            trainer.save_checkpoint(path)
            self.run.saved(step, path)


def _resuming(fit: Any) -> Any:
    def resumed(
        model: Any, train_dataloaders: Any = None, val_dataloaders: Any = None, datamodule: Any = None,
        ckpt_path: Any = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        ordered = os.environ.get(wire.RESUME)
        # A first attempt without a checkpoint may still begin with one that the script names.
        if ordered or int(os.environ.get(wire.ATTEMPT, "1")) > 1:
            ckpt_path = ordered or None
        return fit(model, train_dataloaders, val_dataloaders, datamodule, ckpt_path, **kwargs)

    return resumed
