"""orchestrate show: the policy in force."""

import json

import click

from orchestrator.cli import completing
from orchestrator.store import policy_text


@click.command(epilog="Example:  orchestrate show pretrain mode=observe 'checkpoints.every=500 steps'")
@click.argument("policy", shell_complete=completing.policies)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(policy: str, overrides: tuple[str, ...], as_json: bool) -> int:
    """Print the policy in force, after extends and overrides, with where each value came from.

    What is printed is policy text itself: the origins are comments.
    """
    from orchestrator.review import shown

    loaded = policy_text.load(policy_text.locate(policy), overrides)
    policy_text.checked(loaded)
    click.echo(json.dumps(shown.as_json(loaded), indent=2) if as_json else shown.text(loaded), nl=as_json)
    return 0
