"""orchestrate lint: check policies."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.errors import ConfigError
from orchestrator.store import policy_text
from orchestrator.store.yaml_text import Finding, Mark

if TYPE_CHECKING:
    from orchestrator.config import Config


@click.command(epilog="Example:  orchestrate lint policies/*.yaml --conf conf/pretrain.yaml")
@click.argument("words", shell_complete=completing.policies, nargs=-1, metavar="POLICY... [KEY=VALUE ...]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    show_default=True,
    help="How findings are printed: for a person, a script, a pull request's lines, code scanning.",
)
@click.option("--conf", metavar="CONF", help="Ask also whether the job of this run configuration can do it.")
@click.option("--explain", metavar="CODE", shell_complete=completing.codes, help="Print the page of a code instead.")
def command(words: tuple[str, ...], form: str, conf: str | None, explain: str | None) -> int:
    """Check policies: every error at once, each as file:line:column CODE message.

    What is right by the grammar is also thought about: protection that is switched off, ladders without an
    end, limits that cannot bind, checkpoints that will not be there. A finding is allowed, with its reason,
    by a comment at the end of its line or above it:  # orchestrate: allow ORC123 because ...
    Case files among the names (a shell's policies/*.yaml brings them along) are passed over.

    Exit codes: 0 nothing found, 1 findings, 2 wrong usage.
    """
    from orchestrator.review.lint.check import lint
    from orchestrator.review.lint.formats import FORMATS
    from orchestrator.review.lint.pages import explained

    if explain is not None:
        click.echo(explained(explain))
        return 0
    overrides = [word for word in words if "=" in word and not Path(word).exists()]
    policies = [_path(word) for word in words if word not in overrides and not word.endswith(".cases.yaml")]
    if not policies:
        raise click.UsageError("which policies? Example: orchestrate lint policies/*.yaml")
    config, found = _config(conf)
    for path in policies:
        found += lint(path, overrides, config)
    if found or form != "text":
        click.echo(FORMATS[form](found))
    else:
        click.echo(f"{len(policies)} polic{'y' if len(policies) == 1 else 'ies'}: nothing wrong")
    return 1 if found else 0


def _path(word: str) -> Path:
    """A file as it is named, also one that is not there (that is a finding), or a policy by name."""
    path = Path(word)
    return path if path.suffix or path.is_file() else policy_text.locate(word)


def _config(conf: str | None) -> tuple["Config | None", list[Finding]]:
    """The job's configuration; what is wrong with it is a finding like any other."""
    if conf is None:
        return None, []
    from orchestrator.config import find, load

    file = str(find(conf))
    try:
        return load([f"conf={conf}"]), []
    except ConfigError as error:
        return None, [Finding(Mark(file, 1, 1), "ORC200", str(error).removeprefix(f"{file}: "))]
