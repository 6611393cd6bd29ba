"""orchestrate show: the policy in force."""

import json

import click

from orchestrator.errors import PolicyError
from orchestrator.store import policy_text


@click.command(epilog="Example:  orchestrate show pretrain mode=observe")
@click.argument("policy")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(policy: str, overrides: tuple[str, ...], as_json: bool) -> int:
    """Print the policy in force, after extends and overrides."""
    loaded = policy_text.load(policy_text.locate(policy), overrides)
    if loaded.findings:
        raise PolicyError("\n".join(map(str, loaded.findings)))
    click.echo(json.dumps(loaded.raw, indent=2) if as_json else policy_text.yaml_dump(loaded.raw), nl=as_json)
    return 0
