"""Hugging Face Trainer: one line, `orchestrator.training.huggingface.attach(trainer)`, before `trainer.train()`.

A callback tells every step (`global_step`), evaluation and checkpoint, saves and stops on demand; the rate's factor
acts in the optimizer's step hooks, so the trainer's scheduler, whichever it is, never meets it. The limit on the norm
is live. `train()` resumes from the checkpoint that the supervisor names. Under DeepSpeed there is no guard, and the
limit is the one of DeepSpeed's own configuration.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from orchestrator import wire
from orchestrator.training.accelerate import share_clip
from orchestrator.training.hook import attach as attach_torch
from orchestrator.training.hook import attach_unhooked
from orchestrator.training.run import Run
from orchestrator.training.shield import warn


def attach(trainer: Any, *, shards_total: int | None = None, trace: bool = False) -> "Supervision":
    """Put the callback into a Trainer; without a supervisor nothing of the trainer is changed.

    A key `shards` that the collator puts into a batch, a list of names, is reported and kept from the model.
    `trace` as in plain `attach`.
    """
    callback = Supervision(trainer, shards_total=shards_total, trace=trace)
    if os.environ.get(wire.RUN_DIR):
        trainer.add_callback(callback)
        trainer.train = _resuming(trainer.train)
        trainer.training_step = callback.listening(trainer.training_step)
    return callback


class Supervision(TrainerCallback):  # type: ignore[misc]
    """What a Trainer tells the supervisor, and what it is told."""

    def __init__(self, trainer: Any, **options: Any) -> None:
        self.run = Run()
        self._trainer, self._options = trainer, options
        self._loss: Any = None
        self._shards: dict[str, None] = {}

    def listening(self, training_step: Any) -> Any:
        """The trainer's `training_step`, losses and shards gathered over the micro-batches of a step."""

        def step(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            self._shards.update(dict.fromkeys(inputs.pop("shards", ())))
            loss = training_step(model, inputs, *args, **kwargs)
            self._loss = loss.detach() if self._loss is None else self._loss + loss.detach()
            return loss

        return step

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Attach: the optimizer stands, and has its state back from the checkpoint."""
        _unfilter(args)
        if args.save_total_limit is not None:
            warn("save_total_limit may remove the checkpoint that a rollback needs; leave retention to the policy")
        accelerator = self._trainer.accelerator
        if getattr(self._trainer, "is_deepspeed_enabled", False):
            self.run = attach_unhooked(kwargs["optimizer"], kwargs["model"], **self._options)
        else:
            self.run = attach_torch(kwargs["optimizer"], kwargs["model"], **self._options)
            share_clip(accelerator, self.run)
        self.run.begin(state.global_step, state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the step, take orders."""
        loss, shards = self._loss, list(self._shards)
        self._loss, self._shards = None, {}
        seen = state.num_input_tokens_seen
        fields = {"tokens_seen": seen} if seen else {}
        self.run.step(state.global_step, loss=loss, shards=shards, **fields)
        if self.run.checkpoint_due:
            control.should_save = True
        if self.run.stop_requested:
            control.should_training_stop = True

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        """Report the losses of an evaluation: `eval_loss` as "eval", `eval_code_loss` as "code"."""
        losses = {key: value for key, value in (metrics or {}).items() if key.endswith("_loss")}
        for key, value in losses.items():
            self.run.eval(state.global_step, **{key.removesuffix("_loss").removeprefix("eval_"): value})

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report a checkpoint, whoever asked for it; it is whole by now."""
        self.run.saved(state.global_step, Path(args.output_dir).absolute() / f"checkpoint-{state.global_step}")
        if self.run.stop_requested:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A loop that nobody stopped is complete, early stopping included."""
        if not self.run.stop_requested:
            self.run.finish()


def _resuming(train: Any) -> Any:
    def resumed(resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        ordered = os.environ.get(wire.RESUME)
        # A first attempt without a checkpoint may still begin with one that the script names.
        if ordered or int(os.environ.get(wire.ATTEMPT, "1")) > 1:
            resume_from_checkpoint = ordered or None
        return train(resume_from_checkpoint, *args, **kwargs)

    return resumed


def _unfilter(args: Any) -> None:
    """The filter puts the mean of past losses in the place of NaN."""
    try:
        args.logging_nan_inf_filter = False
    except (AttributeError, dataclasses.FrozenInstanceError):
        warn("logging_nan_inf_filter could not be turned off: the trainer's own log hides losses that are not finite")
