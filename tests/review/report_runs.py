"""Runs in memory for the report's tests."""

from collections.abc import Callable
from functools import cache

from orchestrator.review.report_story import Story, story_of
from orchestrator.store.journal import Record
from orchestrator.store.policy_text import load, locate
from orchestrator.store.policy_write import yaml_dump
from tests.simulation import Job, policy, simulate

SPIKE, LEVEL, HOSTILE = 400, 700, "</text><script>alert('x')</script>\x00\u202e&\"shard"


@cache
def text(mode: str = "act") -> str:
    return yaml_dump(load(locate("pretrain"), [f"mode={mode}"]).raw)


def told(job: Job, mode: str = "act", upto: int | None = None) -> Story:
    return story_of("runs/example", {"policy": text(mode), "digest": "d1"}, [Record(f) for f in job.facts[:upto]])


def saved(attempt: int, step: int) -> dict[str, object] | None:
    """One spike at 400, a level from 700 on that a rollback mends; phases change at 500."""
    out: dict[str, object] = {"phase": "web" if step <= 500 else "code"}
    if attempt == 1 and step == SPIKE:
        out["loss"] = 9.0
    if attempt == 1 and step >= LEVEL:
        out |= {"loss": 4.0, "shards": (HOSTILE,)}
    return out


def hopeless(attempt: int, step: int) -> dict[str, object] | None:
    return {"loss": 4.0} if step >= LEVEL else None


@cache
def run(trouble: Callable[..., object] = saved, mode: str = "act", total: int = 1200) -> Job:
    return simulate(policy(mode=mode), trouble, total)  # type: ignore[arg-type]
