"""orchestrate checkpoints: every checkpoint of a run, or of a bare folder, with its health."""

import json
from pathlib import Path
from typing import Any

import click
import fsspec
from rich.console import Console
from rich.table import Table

from orchestrator import registry
from orchestrator.cli import completing
from orchestrator.config import RunDir
from orchestrator.core.facts import Checkpoint
from orchestrator.core.interval import interval
from orchestrator.core.rules import Rules
from orchestrator.core.state import State
from orchestrator.errors import ConfigError
from orchestrator.review.status import checkpoints_json, known
from orchestrator.runtime import orders
from orchestrator.runtime.examine import examined, full_path
from orchestrator.store import journal

WORDS = ("pin", "unpin", "reject")
_SIDES = ("dcp", "huggingface", "megatron", "deepspeed", "lightning", "olmo", "nanotron", "composer", "torchfile")


@click.command(epilog="Example:  orchestrate checkpoints runs/pretrain --verify full")
@click.argument("words", metavar="RUN|ROOT [pin|unpin|reject STEP]", nargs=-1)
@click.option(
    "--layout",
    metavar="NAME",
    shell_complete=completing.layouts,
    help="The layout of a bare folder; without it, the one that finds most.",
)
@click.option(
    "--verify", metavar="[full]", is_flag=False, flag_value="cheap",
    help="Look into the files, too: sizes, headers and metadata; with full, every byte against its digests.",
)  # fmt: skip
@click.option("--why", default="", help="With pin or reject: said in the journal with your name.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(words: tuple[str, ...], layout: str | None, verify: str | None, why: str, as_json: bool) -> int:
    """List checkpoints with their health and the reason for it; or keep one for good, or rule one out.

    What is pinned is never removed; what is rejected is never gone back to. Both are facts of the run.
    """
    if verify not in (None, "cheap", "full"):  # `--verify RUN`
        words, verify = (str(verify), *words), "cheap"
    if not words:
        raise click.UsageError("which run, or which folder of checkpoints?")
    where, *order = words
    if order:
        return _order(where, order, why)
    body = _run(where, verify) if RunDir(Path(where)).journal.is_file() else _bare(where, layout, verify)
    if as_json:
        click.echo(json.dumps(body))
        return 0
    _tell(body)
    return 0


def _order(where: str, order: list[str], why: str) -> int:
    verb, step = (*order, "")[:2]
    if verb not in WORDS or len(order) != 2 or not step.isdigit():
        raise click.UsageError(f"after the run write one of {', '.join(WORDS)}, and a step")
    if verb == "reject" and not why:
        raise click.UsageError("say why: --why '...'")
    _, state, run = known(where)
    if not any(c.step == int(step) and c.state == "saved" for c in state.checkpoints):
        raise ConfigError(f"{where}: there is no complete checkpoint of step {step}")
    orders.give(run, verb, why, float(step))
    click.echo(f"told the run at {run.path} to {verb} the checkpoint of step {step}")
    return 0


def _run(where: str, verify: str | None) -> dict[str, Any]:
    rules, state, run = known(where)
    rows = checkpoints_json(rules, state)
    for row in rows:
        if row["step"] in state.pins:
            row["pinned"] = True
    if verify:
        config = journal.header_of(run.journal).get("config", {})
        layout = str(config.get("checkpoints", {}).get("layout", "dcp"))
        rows = [_verified(row, layout, verify == "full") for row in rows]
    return {"checkpoints": rows, **_cadence(rules, state)}


def _cadence(rules: Rules, state: State) -> dict[str, Any]:
    """The numbers behind `every: auto`."""
    if rules.policy.checkpoints.every.unit != "auto":
        return {}
    found = interval(state)
    return {"auto": {**found._asdict(), "words": found.words()}}


def _bare(where: str, layout: str | None, verify: str | None) -> dict[str, Any]:
    fs, root = fsspec.url_to_fs(where)
    if not fs.isdir(root):
        raise ConfigError(f"{where}: there is neither a run nor a folder of checkpoints")
    name = layout or max(_SIDES, key=lambda side: len(registry.load("checkpoints", side).scan(fs, root)))
    rows = [
        {"step": f.step, "path": full_path(fs, f.path), "health": "provisional" if f.complete else "candidate",
         "reason": f.why or _holds(f.missing)}
        for f in registry.load("checkpoints", name).scan(fs, root)
    ]  # fmt: skip
    rows = [_verified(row, name, verify == "full") for row in rows] if verify else rows
    return {"checkpoints": rows, "layout": name}


def _holds(missing: tuple[str, ...]) -> str:
    if "optimizer" in missing:
        return "complete, but holds no optimizer: not to resume from"
    return "complete; no run tells whether it is healthy"


def _verified(row: dict[str, Any], layout: str, full: bool) -> dict[str, Any]:
    """The row after a look at the files; what is incomplete, gone or bad already is left as it is told."""
    if row["health"] in ("candidate", "missing", "bad"):
        return row
    seen = examined(registry.load("checkpoints", layout), Checkpoint(0, row["step"], row["path"], "saved"), full)
    if seen.state == "saved":
        return {**row, "verified": "full" if full else "cheap"}
    return {**row, "health": "missing" if seen.state == "missing" else "bad", "reason": seen.why}


def _tell(body: dict[str, Any]) -> None:
    table = Table("step", "health", "reason", "path")
    for row in body["checkpoints"]:
        marks = [word for word in ("pinned", "verified") if row.get(word)]
        reason = ", ".join([row["reason"], *marks])
        table.add_row(str(row["step"]), row["health"], reason, row["path"])
    console = Console(highlight=False, markup=False)
    console.print(table if body["checkpoints"] else "no checkpoints here")
    if "auto" in body:
        console.print(body["auto"]["words"])
