"""What the shell may complete: names of policies and of formats."""

import click
from click.shell_completion import CompletionItem


def policies(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shipped policies by name, and files."""
    from orchestrator.store.policy_text import named

    names = [CompletionItem(name) for name in named() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


def formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The formats of recordings."""
    from orchestrator import registry

    return [CompletionItem(name) for name in registry.names("telemetry") if name.startswith(incomplete)]
