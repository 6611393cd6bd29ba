"""PyTorch Lightning."""

from collections.abc import Iterator
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, IterableDataset

import orchestrator.training.lightning
from tests.e2e.trainers_jobs import task


class Text(IterableDataset[dict[str, Any]]):
    """The stream, at the place where its checkpoint left it."""

    def __init__(self, fault: str) -> None:
        self.fault, self.read = fault, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, batch in enumerate(task.batches(self.fault)):
            if number >= self.read:
                yield {"tokens": batch.tokens, "shards": [batch.shard]}


class Module(pl.LightningModule):
    def __init__(self, lr: float, fault: str, text: Text) -> None:
        super().__init__()
        self.model, self.lr, self.fault, self.text = task.model(), lr, fault, text

    def training_step(self, batch: dict[str, Any], index: int) -> torch.Tensor:
        return task.loss_of(self.model(batch["tokens"][:, :-1]), batch["tokens"])

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.text.read = checkpoint["global_step"]

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: task.rise(self.fault, done + 1))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main() -> None:
    args = task.arguments()
    torch.set_num_threads(1)
    text = Text(args.fault)
    trainer = pl.Trainer(
        max_steps=args.steps, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    orchestrator.training.lightning.attach(trainer, shards_total=len(task.SHARDS))
    trainer.fit(Module(args.lr, args.fault, text), DataLoader(text, batch_size=None))


if __name__ == "__main__":
    main()
