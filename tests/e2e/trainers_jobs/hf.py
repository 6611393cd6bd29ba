"""Hugging Face Trainer with a GPT-2 made from its configuration."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import orchestrator.training.huggingface
from tests.e2e.trainers_jobs import task


class Text(IterableDataset[dict[str, Any]]):
    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in task.batches(self.fault):
            for row in batch.tokens:
                yield {"input_ids": row, "labels": row, "shard": batch.shard}


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    batch: dict[str, Any] = {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels")}
    batch["shards"] = [row["shard"] for row in rows]
    return batch


class Mistake(TrainerCallback):
    """The schedule's mistake: its base rates rise in mid-run."""

    def __init__(self, fault: str, lr: float) -> None:
        self.fault, self.lr = fault, lr

    def on_step_begin(self, args: Any, state: Any, control: Any, lr_scheduler: Any = None, **kwargs: Any) -> None:
        lr_scheduler.base_lrs = [self.lr * task.rise(self.fault, state.global_step + 2)] * len(lr_scheduler.base_lrs)


def main() -> None:
    args = task.arguments(scheduler="constant", output="out", accumulate=1)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = {"n_layer": 1, "n_head": 2, "n_embd": 32, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=task.VOCABULARY, **shape))
    settings = TrainingArguments(
        output_dir=args.output, max_steps=args.steps, learning_rate=args.lr, lr_scheduler_type=args.scheduler,
        per_device_train_batch_size=task.ROWS // args.accumulate, gradient_accumulation_steps=args.accumulate,
        warmup_steps=10 if args.scheduler != "constant" else 0, logging_steps=50, save_strategy="no", report_to=[],
        remove_unused_columns=False, use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model, settings, collate, Text(args.fault), callbacks=[Mistake(args.fault, args.lr)])
    orchestrator.training.huggingface.attach(trainer, shards_total=len(task.SHARDS))
    trainer.train()


if __name__ == "__main__":
    main()
