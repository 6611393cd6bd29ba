"""The commands, one file each; only here is anything printed and are exit codes chosen."""

import sys
from importlib import import_module

import click

from orchestrator import __version__
from orchestrator.errors import OrchestrateError

COMMANDS = {
    "run": "Supervise a job by a policy; the same command again resumes or adopts it.",
    "submit": "Put a run on Slurm.",
    "status": "Say how a run stands.",
    "report": "Tell a run on a page or in a picture.",
    "watch": "Follow a run live.",
    "checkpoints": "List checkpoints with their health.",
    "quarantine": "List the shards that are left out.",
    "ctl": "An operator's word to a run: stop, checkpoint, rollback, lr, clip, approve, release.",
    "silence": "Announce a planned disturbance.",
    "lint": "Check policies.",
    "show": "Print the policy in force.",
    "plan": "Show what a policy means over the run.",
    "schema": "Print the JSON Schema of a policy, for editors.",
    "test": "Run policy cases: series, and what must be decided on them.",
    "diff": "Say what a change of a policy means, and what it changes on recordings.",
    "replay": "Say what a policy would have done on recordings.",
    "init": "Begin in an existing project.",
    "doctor": "Say what is missing here.",
}


class Commands(click.Group):
    """Loads a command's file only when it is called: no command pays for another's imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a file of this folder."""
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"orchestrator.cli.{name}").command
        if command.epilog and not command.epilog.startswith("\b"):
            command.epilog = f"\b\n{command.epilog}"  # an example is copied: it is never broken into lines
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table: help needs no import of any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


BEGIN = """\b
Begin with:        orchestrate run conf=pretrain.yaml
Look before that:  orchestrate plan pretrain
                   orchestrate replay observe OLD_RUN
Names complete:    eval "$(_ORCHESTRATE_COMPLETE=bash_source orchestrate)"   (zsh_source, fish_source)
"""


@click.command(cls=Commands, epilog=BEGIN)
@click.version_option(__version__, prog_name="orchestrate")
def group() -> None:
    """A declarative run-policy orchestrator for deep-learning training."""


def main() -> None:
    """The `orchestrate` command."""
    try:
        code = group.main(standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except OrchestrateError as error:
        click.echo(f"orchestrate: {error}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        code = 0
    except Exception:  # noqa: BLE001  the top of the command line: a bug of ours is said as one
        import traceback

        traceback.print_exc()
        click.echo("orchestrate: this is a bug of orchestrate; the run itself goes on untouched", err=True)
        code = 70
    sys.exit(code if isinstance(code, int) else 0)
