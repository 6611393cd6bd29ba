"""orchestrate report: what happened in a run, on a page or in a picture."""

from pathlib import Path

import click


@click.command(epilog="Example:  orchestrate report runs/pretrain -o report.html")
@click.argument("run")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE",
    help="report.html: the whole page; run.svg: the picture alone.",
)  # fmt: skip
def command(run: str, output: Path) -> int:
    """Tell a run as one self-contained file: its curves, incidents, answers and checkpoints."""
    from orchestrator.review.report import write

    size = write(run, output)
    click.echo(f"{output}: {max(size // 1000, 1)} kB")
    return 0
