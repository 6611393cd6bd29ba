"""orchestrate checkpoints: every checkpoint of a run, or of a bare folder, with its health."""

import json
from pathlib import Path
from typing import Any

import click
import fsspec
from rich.console import Console
from rich.table import Table

from orchestrator import registry
from orchestrator.config import RunDir
from orchestrator.errors import ConfigError
from orchestrator.review.status import checkpoints_json, known


@click.command(epilog="Example:  orchestrate checkpoints runs/pretrain --verify --json")
@click.argument("where", metavar="RUN|ROOT")
@click.option("--layout", default="dcp", show_default=True, help="The layout of a bare folder.")
@click.option("--verify", is_flag=True, help="Look into the files, too.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(where: str, layout: str, verify: bool, as_json: bool) -> int:
    """List checkpoints with their health and the reason for it."""
    if RunDir(Path(where)).journal.is_file():
        rules, state, _ = known(where)
        rows = checkpoints_json(rules, state)
    else:
        rows = _bare(where, layout)
    if verify:
        rows = [_verified(row, layout) for row in rows]
    if as_json:
        click.echo(json.dumps({"checkpoints": rows}))
        return 0
    table = Table("step", "health", "reason", "path")
    for row in rows:
        table.add_row(str(row["step"]), row["health"], row["reason"], row["path"])
    Console(highlight=False).print(table if rows else "no checkpoints here")
    return 0


def _bare(where: str, layout: str) -> list[dict[str, Any]]:
    fs, root = fsspec.url_to_fs(where)
    if not fs.isdir(root):
        raise ConfigError(f"{where}: there is neither a run nor a folder of checkpoints")
    found = registry.load("checkpoints", layout).scan(fs, root)
    return [
        {"step": f.step, "path": f.path, "health": "provisional" if f.complete else "candidate",
         "reason": f.why or "complete; no run tells whether it is healthy"}
        for f in found
    ]  # fmt: skip


def _verified(row: dict[str, Any], layout: str) -> dict[str, Any]:
    fs, path = fsspec.url_to_fs(row["path"])
    if not fs.exists(path):
        return {**row, "health": "missing", "reason": "it is gone"}
    wrong = registry.load("checkpoints", layout).verify(fs, path)
    return {**row, "health": "bad", "reason": wrong} if wrong and row["health"] != "candidate" else row
