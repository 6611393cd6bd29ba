"""orchestrate ctl: an operator's word, a fact like any other."""

import click

from orchestrator.config import RunDir
from orchestrator.review.status import known
from orchestrator.runtime import orders

VERBS = ("stop", "release", "approve")


@click.command(epilog="Example:  orchestrate ctl runs/pretrain release --why 'bad disk replaced'")
@click.argument("run")
@click.argument("verb", type=click.Choice(VERBS))
@click.option("--why", default="", help="Said in the journal with your name.")
def command(run: str, verb: str, why: str) -> int:
    """Tell a run to stop, approve what it proposes, or release it from a hold."""
    where = known(run)[2]
    if verb == "release" and not why:
        raise click.UsageError("say why: --why '...'")
    orders.give(RunDir(where.path), verb, why)
    click.echo(f"told the run at {where.path} to {verb}" + (" at its next start" if verb == "release" else ""))
    return 0
