"""orchestrate quarantine: the shards that are left out."""

import json

import click

from orchestrator.config import RunDir
from orchestrator.review.status import known, status_json
from orchestrator.runtime import orders

EPILOG = """Example:  orchestrate quarantine runs/pretrain list --json
          orchestrate quarantine runs/pretrain add web-00012 --why 'mostly markup'"""


@click.group(invoke_without_command=True, epilog=EPILOG)
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
        by = f"incident {entry['incident']}" if entry["incident"] is not None else "an operator"
        click.echo(f"{entry['shard']}  {by}  {until}")
    if not entries:
        click.echo("nothing is in quarantine")
    return 0


@command.command("add")
@click.argument("shards", nargs=-1, required=True)
@click.option("--why", required=True, help="Said in the journal with your name.")
@click.pass_obj
def _add(run: str, shards: tuple[str, ...], why: str) -> int:
    """Leave shards out from the next launch on."""
    return _tell(run, "quarantine", shards, why)


@command.command("release")
@click.argument("shards", nargs=-1, required=True)
@click.option("--why", required=True, help="Said in the journal with your name.")
@click.pass_obj
def _release(run: str, shards: tuple[str, ...], why: str) -> int:
    """Read shards again from the next launch on."""
    _, state, _ = known(run)
    left_out = {shard for shard, *_ in state.levels.quarantine}
    if unknown := [shard for shard in shards if shard not in left_out]:
        raise click.UsageError(f"not in quarantine: {', '.join(unknown)}")
    return _tell(run, "readmit", shards, why)


def _tell(run: str, verb: str, shards: tuple[str, ...], why: str) -> int:
    _, state, where = known(run)
    if state.status == "completed":
        raise click.UsageError("the run is completed: there is nothing left to do")
    orders.give(RunDir(where.path), verb, why, shards=shards)
    done = "left out" if verb == "quarantine" else "read again"
    click.echo(f"told the run at {where.path}: {', '.join(shards)} {done} from the next launch on")
    return 0
