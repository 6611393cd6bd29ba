"""orchestrate schema: the JSON Schema of a policy."""

import json

import click


@click.command(epilog="Example:  orchestrate schema > .vscode/policy.schema.json")
def command() -> int:
    """Print the JSON Schema of a policy, for editors.

    With yaml-language-server, begin a policy with:  # yaml-language-server: $schema=PATH
    """
    from orchestrator.review.schema import schema

    click.echo(json.dumps(schema(), indent=2))
    return 0
