"""orchestrate quarantine: the shards that are left out."""

import json

import click

from orchestrator.review.status import known, status_json


@click.group(invoke_without_command=True, epilog="Example:  orchestrate quarantine runs/pretrain list --json")
@click.argument("run")
@click.pass_context
def command(ctx: click.Context, run: str) -> int | None:
    """The shards that a run leaves out, and why."""
    ctx.obj = run
    return ctx.invoke(_list) if ctx.invoked_subcommand is None else None


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def _list(run: str, as_json: bool = False) -> int:
    """Every shard with the incident that put it there."""
    rules, state, _ = known(run)
    entries = status_json(rules, state)["quarantine"]
    if as_json:
        click.echo(json.dumps({"quarantine": entries}))
        return 0
    for entry in entries:
        until = f"until step {entry['expires_step']}" if entry["expires_step"] is not None else "for good"
        click.echo(f"{entry['shard']}  incident {entry['incident']}  {until}")
    if not entries:
        click.echo("nothing is in quarantine")
    return 0
