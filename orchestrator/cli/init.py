"""orchestrate init: begin in an existing project."""

import json
import shlex
from pathlib import Path

import click

from orchestrator.errors import ConfigError

CONF = """\
# The run configuration of `orchestrate run conf={name}`; every value can be overridden as key=value.
policy: policy.yaml

run:
  dir: runs/{name}

job:
  command: {command}
  env: {{}}

launcher:
  kind: {launcher}            # local | torchrun | slurm
  ranks: 1

telemetry:
  kind: wire                  # what `orchestrator.attach` writes; or the format of the job's own log

checkpoints:
  layout: dcp                 # how the trainer lays its checkpoints out
  root: checkpoints           # below run.dir

stop:
  grace: 30                   # seconds that a stop and its checkpoint may take
"""
POLICY = """\
# What happens when the loss does not do what it should. Begin by looking on; `mode: act` when you trust it.
version: 1
extends: pretrain
mode: observe
"""
HOOK = """\
in the trainer:

    import orchestrator
    run = orchestrator.attach(optimizer, model=model)
    ...
    run.step(step, loss=loss)            # after optimizer.step()
    if run.checkpoint_due:
        run.save(step, {"model": model, "optimizer": optimizer})
    if run.stop_requested:
        break
"""


@click.command(epilog="Example:  orchestrate init --command 'python train.py --config big.yaml'")
@click.option("--command", "words", default="python train.py", help="How the job is started, as typed in a shell.")
@click.option("--name", default="train", help="The configuration's name.")
@click.option("--launcher", type=click.Choice(["local", "torchrun", "slurm"]), default="local")
def command(words: str, name: str, launcher: str) -> int:
    """Write conf/NAME.yaml and policy.yaml into this folder; nothing that exists is touched."""
    try:
        split = shlex.split(words)
    except ValueError as error:
        raise click.UsageError(f"--command: {error}") from error
    if not split:
        raise click.UsageError("--command is empty")
    conf, policy = Path("conf") / f"{name}.yaml", Path("policy.yaml")
    if conf.exists():
        raise ConfigError(f"{conf} exists already; choose another --name")
    conf.parent.mkdir(exist_ok=True)
    listed = json.dumps(split, ensure_ascii=False)
    conf.write_text(CONF.format(name=name, command=listed, launcher=launcher), encoding="utf-8")
    click.echo(f"wrote {conf}")
    if policy.exists():
        click.echo(f"{policy} exists already and stays as it is")
    else:
        policy.write_text(POLICY, encoding="utf-8")
        click.echo(f"wrote {policy}")
    click.echo(HOOK)
    click.echo(f"then: orchestrate doctor conf={name}    orchestrate run conf={name}")
    return 0
