"""orchestrate submit: put a run on Slurm."""

import subprocess

import click

from orchestrator import registry
from orchestrator.config import RunDir, load
from orchestrator.errors import ConfigError
from orchestrator.runtime import batch
from orchestrator.store import policy_text
from orchestrator.wire import write_text


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example:  orchestrate submit conf=pretrain.yaml launcher=slurm launcher.nodes=2 run.dir=/shared/runs/a",
)
@click.option("--print", "only_print", is_flag=True, help="Print the batch script; submit nothing.")
@click.argument("arguments", nargs=-1, metavar="conf=NAME [key=value ...]")
def command(arguments: tuple[str, ...], only_print: bool) -> int:
    """Write the batch script of a run into its run directory and submit it.

    The arguments are those of `orchestrate run`, with launcher=slurm. Policy and configuration are checked first.
    """
    config = load(arguments)
    if config.launcher["kind"] != "slurm":
        raise ConfigError(f"launcher={config.launcher['kind']}: submit needs launcher=slurm")
    registry.bind(policy_text.checked(policy_text.load(policy_text.locate(config.policy, config.root), config.overrides)))
    text = batch.script(config, arguments)
    if only_print:
        click.echo(text, nl=False)
        return 0
    config.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = RunDir(config.run_dir).batch
    write_text(path, text)
    try:
        done = subprocess.run(["sbatch", "--parsable", str(path)], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no sbatch here; the script is in {path}") from error
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"sbatch refused: {error.stderr.strip()}; the script is in {path}") from error
    click.echo(f"job {done.stdout.strip()}: {path}")
    click.echo(f"look with: orchestrate status {config.run_dir}")
    return 0
