"""orchestrate replay: what a policy would have done on recordings."""

import json

import click

from orchestrator.cli import completing
from orchestrator.review import replay_text
from orchestrator.review.replay import replay
from orchestrator.store import policy_text


@click.command(epilog="Example:  orchestrate replay pretrain runs/pretrain old_run.csv --json")
@click.argument("policy", shell_complete=completing.policies)
@click.argument("recordings", nargs=-1, required=True, metavar="RECORDING...")
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    shell_complete=completing.formats,
    help="The format of a log that does not say it itself.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(policy: str, recordings: tuple[str, ...], format_: str | None, as_json: bool) -> int:
    """Say what a policy would have done on recordings, when and why, and what that would have cost.

    A RECORDING is a run directory, a journal, wire JSONL, a CSV, a TensorBoard folder, or any log with
    --format NAME; a path, or a URL such as s3://bucket/runs/last. Nothing is changed; decisions are those
    of a live run at the same place.
    """
    answer = replay(policy_text.read(policy), recordings, format_)
    click.echo(json.dumps(answer, allow_nan=False) if as_json else replay_text.lines(answer))
    return 0
