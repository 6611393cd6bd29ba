"""A declarative run-policy orchestrator for deep-learning training; the trainer's side is `attach`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.training.hook import Run

__version__ = "0.1.0"
__all__ = ["attach"]


def attach(optimizer: Any, model: Any = None, **options: Any) -> "Run":
    """Join this training process to its supervisor; see `orchestrator.training.hook.attach`."""
    from orchestrator.training.hook import attach as join

    return join(optimizer, model=model, **options)
