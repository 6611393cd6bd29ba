"""The fixtures of the trainer's side."""

from supervised import attempt, task

__all__ = ["attempt", "task"]
