"""orchestrate status: how a run stands."""

import json

import click
from rich.console import Console
from rich.markup import escape

from orchestrator.review.status import known, status_json


@click.command(epilog="Example:  orchestrate status runs/pretrain --json")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="The whole state as JSON.")
def command(run: str, as_json: bool) -> int:
    """Say how a run stands; exit 0 whenever it could be read."""
    rules, state, _ = known(run)
    told = status_json(rules, state)
    if as_json:
        click.echo(json.dumps(told, allow_nan=False))
        return 0
    console = Console(highlight=False, soft_wrap=True)
    total = f"/{told['total']}" if told["total"] else ""
    console.print(
        f"{told['state']}: attempt {told['attempt']}, step {told['step']}{total}, lr_scale {told['lr_scale']:.3g}"
    )
    if told["why"]:
        console.print(escape(told["why"]))
    for incident in told["incidents"]:
        done = ", ".join(f"{a['verb']} ({a['outcome']})" for a in incident["actions"]) or "nothing done"
        console.print(escape(
            f"incident {incident['id']}: {incident['class']} ({incident['severity']}), onset {incident['onset_step']}, "
            f"{incident['stage']}: {incident['verdict']}; {done}"
        ))  # fmt: skip
    healthy = [c for c in told["checkpoints"] if c["health"] == "healthy"]
    console.print(
        f"checkpoints: {sum(c['health'] != 'missing' for c in told['checkpoints'])}, {len(healthy)} healthy"
        + (f", newest healthy at step {healthy[-1]['step']}" if healthy else "")
    )
    if told["cadence"]:
        console.print(told["cadence"])
    for entry in told["quarantine"]:
        by = "an operator" if entry["incident"] is None else f"incident {entry['incident']}"
        console.print(escape(f"left out: {entry['shard']} ({by}, until {entry['expires_step']})"))
    for host in told["hosts_left_out"]:
        console.print(escape(f"left out: host {host}"))
    for name, value in told["eval"].items():
        console.print(f"{name}: {value}")
    return 0
