"""What the shell may complete: names of policies, formats and layouts, and codes of findings."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem


def policies(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shipped policies by name, or else files; bash forgets what stands before the word that asks for files."""
    from orchestrator.store.policy_text import named

    return [CompletionItem(incomplete, type="file"), *_beginning(named(), incomplete)]


def formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The formats of recordings."""
    from orchestrator import registry

    return _beginning(registry.names("telemetry"), incomplete)


def layouts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The layouts of checkpoints."""
    from orchestrator import registry

    return _beginning(registry.names("checkpoints"), incomplete)


def codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes that lint has a page for."""
    from orchestrator.review.lint.pages import pages

    return _beginning([page.code for page in pages()], incomplete.upper())


def _beginning(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
