"""orchestrate ctl: an operator's word, a fact like any other."""

import click

from orchestrator.config import RunDir
from orchestrator.core.state import FINAL, State
from orchestrator.core.units import share
from orchestrator.review.status import known
from orchestrator.runtime import orders

VERBS = ("stop", "checkpoint", "rollback", "lr", "clip", "approve", "release")
NEEDS_VALUE = ("lr", "clip")


@click.command(
    epilog="Example:  orchestrate ctl RUN lr 50%\n          orchestrate ctl RUN rollback 40000 --why 'odd samples'"
)
@click.argument("run")
@click.argument("verb", type=click.Choice(VERBS))
@click.argument("value", required=False)
@click.option("--why", default="", help="Said in the journal with your name.")
@click.option("--host", default="", help="With release: the host that is mended.")
def command(run: str, verb: str, value: str | None, why: str, host: str) -> int:
    """Tell a run what to do; its supervisor obeys within a second, whatever its mode.

    \b
    stop              end the job at its next step; the run stays as it is
    checkpoint        save at the next step
    rollback [STEP]   go back to the checkpoint of STEP, else to the newest healthy one
    lr SHARE          scale the learning rate as it is now, such as 50%
    clip SHARE        scale the gradient clip as it is now
    approve [NUMBER]  say yes to what is proposed (for one incident)
    release           let a held, failed or stopped run go on at its next start; needs --why
    release --host H  take a host that was left out again, from the next launch on; needs --why
    """
    _, state, where = known(run)
    number = _number(verb, value)
    if verb == "release" and not why:
        raise click.UsageError("say why: --why '...'")
    if host:
        _left_out(state, verb, host)
    else:
        _possible(state, verb)
    orders.give(RunDir(where.path), verb, why, number, host)
    later = " at its next start" if state.status in FINAL else ""
    click.echo(f"told the run at {where.path}: {verb}" + (f" {value or host}" if value or host else "") + later)
    return 0


def _number(verb: str, value: str | None) -> float | None:
    """What the value means for the verb; UsageError where it means nothing."""
    if verb in NEEDS_VALUE:
        try:
            return share(value)
        except ValueError as error:
            raise click.UsageError(f"{verb} needs a share: {error}") from error
    if value is None:
        return None
    if verb not in ("rollback", "approve") or not value.isdigit():
        raise click.UsageError(f"{verb} takes no value {value!r}")
    return float(value)


def _left_out(state: State, verb: str, host: str) -> None:
    """UsageError where this host is not left out, or something else than its release is meant."""
    if verb != "release":
        raise click.UsageError(f"{verb} is said of no host")
    if host not in state.levels.hosts:
        known = ", ".join(state.levels.hosts) or "no host"
        raise click.UsageError(f"{host} is not left out; {known} is")
    if state.status == "completed":
        raise click.UsageError("the run is completed: there is nothing left to do")


def _possible(state: State, verb: str) -> None:
    """UsageError where nobody would hear it, or it would do nothing."""
    if verb == "release":
        if state.status not in FINAL:
            raise click.UsageError(f"the run is {state.status}: there is nothing to release")
        if state.status == "completed":
            raise click.UsageError("the run is completed: there is nothing left to do")
    elif state.status in FINAL and (state.status, verb) != ("preempted", "stop"):
        raise click.UsageError(f"the run is {state.status}: nobody is there to {verb}")
    if verb == "approve" and not state.proposed:
        raise click.UsageError("nothing is proposed")
