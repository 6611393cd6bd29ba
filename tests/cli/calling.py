"""Commands called in this process, as a shell would."""

from typing import NamedTuple

from click.testing import CliRunner

from orchestrator.cli import group
from orchestrator.errors import OrchestrateError


class Said(NamedTuple):
    """What a command printed and its exit code."""

    code: int
    out: str


def call(*words: object) -> Said:
    """`orchestrate WORDS`; our own errors become exit code and text, as at the top of the command line."""
    result = CliRunner().invoke(group, [str(word) for word in words], standalone_mode=False)
    if isinstance(result.exception, OrchestrateError):
        return Said(result.exception.exit_code, str(result.exception))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        if hasattr(result.exception, "exit_code"):
            return Said(result.exception.exit_code, result.exception.format_message())
        raise result.exception
    return Said(result.return_value or 0, result.output)
