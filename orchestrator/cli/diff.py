"""orchestrate diff: what a change of a policy means."""

import json

import click

from orchestrator.cli import completing


@click.command(epilog="Example:  orchestrate diff main:policies/pretrain.yaml policies/pretrain.yaml --on runs/old_run")
@click.argument("old", shell_complete=completing.policies)
@click.argument("new", shell_complete=completing.policies)
@click.option(
    "--on", "recordings", multiple=True, metavar="RECORDING", help="Compare decisions on it, too; repeatable."
)
@click.option(
    "--log-format",
    metavar="NAME",
    shell_complete=completing.formats,
    help="The format of recordings that do not say it themselves.",
)
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True)
@click.option("--exit-code", is_flag=True, help="Exit 1 when anything differs.")
@click.argument("more", nargs=-1, metavar="[RECORDING...]")
def command(
    old: str, new: str, recordings: tuple[str, ...], log_format: str | None, form: str, exit_code: bool,
    more: tuple[str, ...],
) -> int:  # fmt: skip
    """Compare two policies by meaning, and by what they decide on recorded runs.

    OLD and NEW are files, names of policies, or REV:PATH of git. Keys that only moved or are written
    otherwise are no difference. On recordings both are asked at every incident what they would do there.
    """
    from orchestrator.review import revision
    from orchestrator.review.diff import report
    from orchestrator.review.diff.clauses import changed
    from orchestrator.review.diff.decisions import on
    from orchestrator.store.policy_text import checked

    before, after = checked(revision.load(old)), checked(revision.load(new))
    clauses = changed(before, after)
    compared = on(before, after, (*recordings, *more), log_format)
    told = ((old, new), clauses, compared)
    if form == "json":
        click.echo(json.dumps(report.as_json(*told), allow_nan=False))
    else:
        click.echo(report.as_text(*told) if form == "text" else report.as_markdown(*told), nl=form == "text")
    differ = bool(clauses) or any(each.differences for each in compared)
    return 1 if exit_code and differ else 0
