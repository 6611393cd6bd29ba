"""orchestrate silence: a planned disturbance, who said so, why, and until when."""

import json

import click

from orchestrator.core.state import FINAL
from orchestrator.core.units import steps
from orchestrator.review.status import known
from orchestrator.runtime import orders


@click.group(invoke_without_command=True, epilog="Example:  orchestrate silence RUN add '200 steps' --why 'new tokenizer'")
@click.argument("run")
@click.pass_context
def command(ctx: click.Context, run: str) -> int | None:
    """Announce a disturbance that is no incident.

    While it lasts the old level of the loss does not bind, up to a rise of 50 %; what is not finite is seen all the same.
    """
    ctx.obj = run
    return ctx.invoke(_list) if ctx.invoked_subcommand is None else None


@command.command("add")
@click.argument("length")
@click.option("--why", required=True, help="Said in the journal with your name.")
@click.pass_obj
def _add(run: str, length: str, why: str) -> int:
    """Begin a silence of LENGTH, such as '200 steps'."""
    try:
        number = steps(length)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    _tell(run, "silence", why, float(number))
    click.echo(f"the next {number} steps are announced as disturbed")
    return 0


@command.command("expire")
@click.option("--why", default="", help="Said in the journal with your name.")
@click.pass_obj
def _expire(run: str, why: str) -> int:
    """End every silence now."""
    _tell(run, "expire", why)
    click.echo("no silence is in force any more")
    return 0


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def _list(run: str, as_json: bool = False) -> int:
    """Every silence, and whether it is in force."""
    _, state, _ = known(run)
    if as_json:
        told = [{**s._asdict(), "in_force": state.step < s.until} for s in state.silences]
        click.echo(json.dumps({"silences": told}))
        return 0
    for silence in state.silences:
        word = "until" if state.step < silence.until else "ended at"
        click.echo(f"{word} step {silence.until}  {silence.author}: {silence.why}")
    if not state.silences:
        click.echo("nothing is announced")
    return 0


def _tell(run: str, verb: str, why: str, value: float | None = None) -> None:
    _, state, where = known(run)
    if state.status in FINAL:
        raise click.UsageError(f"the run is {state.status}: nobody is there to hear it")
    orders.give(where, verb, why, value)
