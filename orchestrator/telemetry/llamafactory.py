"""LLaMA-Factory's trainer_log.jsonl (`current_steps`), and ms-swift's (`global_step/max_steps`: "120/1000")."""

from orchestrator.telemetry._objects import ObjectParser


def parser(attempt: int) -> ObjectParser:
    return ObjectParser(attempt)
