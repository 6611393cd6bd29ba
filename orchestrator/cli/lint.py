"""orchestrate lint: check policies."""

from pathlib import Path

import click

from orchestrator.store import policy_text


@click.command(epilog="Example:  orchestrate lint policies/*.yaml")
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
def command(policies: tuple[str, ...]) -> int:
    """Check policies: every error at once, each with its file, line and column; exit 1 when there are any."""
    count = 0
    for name in policies:
        path = Path(name) if Path(name).suffix else policy_text.locate(name)
        findings = policy_text.load(path).findings
        count += len(findings)
        for finding in findings:
            click.echo(str(finding))
    if not count:
        click.echo(f"{len(policies)} polic{'y' if len(policies) == 1 else 'ies'}: nothing wrong")
    return 1 if count else 0
