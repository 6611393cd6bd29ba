"""orchestrate plan: what a policy means over the run."""

import json
from pathlib import Path

import click

from orchestrator.cli import completing
from orchestrator.store import policy_text


@click.command(epilog="Example:  orchestrate plan tiny_gpt --png plan.png")
@click.argument("policy", shell_complete=completing.policies)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option("--steps", type=click.IntRange(min=1), help="How long the run is, where the policy does not say.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw it, too.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(policy: str, overrides: tuple[str, ...], steps: int | None, png: Path | None, as_json: bool) -> int:
    """Show what a policy means over the run: rate, phases, clip, checkpoints, answers, and what is lost at worst."""
    from orchestrator.review import chart, plot
    from orchestrator.review.course import course

    plan = course(policy_text.read(policy, overrides=overrides), steps)
    if png is not None:
        chart.draw(plan, png)
    click.echo(json.dumps(plan) if as_json else "\n".join(plot.lines(plan)))
    return 0
