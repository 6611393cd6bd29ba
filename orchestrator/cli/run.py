"""orchestrate run: supervise a job."""

import os
import time

import click

from orchestrator import registry
from orchestrator.cli.telling import Telling
from orchestrator.config import Config, RunDir, load
from orchestrator.errors import ConfigError, RunDirError
from orchestrator.review.past import past
from orchestrator.store import journal, policy_text
from orchestrator.wire import read_json


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example:  orchestrate run conf=pretrain.yaml faults=none run.dir=runs/plain",
)
@click.argument("arguments", nargs=-1, metavar="conf=NAME [key=value ...]")
def command(arguments: tuple[str, ...]) -> int:
    """Supervise a job by a policy; the same command again resumes or adopts it.

    conf=NAME names the run configuration; policy=NAME another policy than its own, policy.KEY=VALUE an
    override of one value in it; everything else overrides the configuration (Hydra's grammar).

    Exit codes: 0 the job reached its end; 1 it failed untreated; 2 wrong usage, configuration or policy;
    3 held or stopped, do not requeue; 4 the run directory is damaged; 75 please requeue.
    """
    config = load(arguments)
    loaded = policy_text.load(policy_text.locate(config.policy, config.root), config.overrides)
    rules = registry.bind(policy_text.checked(loaded))
    if index := _follows(config):
        return _follow(config, index)
    run = _run_dir(config)
    if (code := _already_over(run)) is not None:
        return code
    from orchestrator.runtime import ending
    from orchestrator.runtime.supervisor import Detached, Supervisor

    began = time.monotonic()
    telling = Telling(rules, run, past(config.values.get("history"), config.root))
    supervisor = Supervisor(config, run, loaded, rules, telling.hear)
    with telling:
        try:
            state = supervisor.run()
        except Detached:
            telling.detached()
            return 0
        except OSError as error:
            raise RunDirError(f"{run.path}: {error.strerror or error}; the job itself was left running") from error
    ending.write(run, state, time.monotonic() - began)
    telling.summary(state, time.monotonic() - began)
    if state.status == "held":
        click.echo("\n".join(ending.last_page(rules, state, run)))
    if state.status == "preempted" and supervisor.notice == "SIGUSR1" and config.launcher.get("requeue"):
        wrong = registry.load("launchers", str(config.launcher["kind"])).requeue()
        click.echo(f"the scheduler was asked to requeue: {wrong or 'it will'}")
    return ending.exit_code(state)


def _follows(config: Config) -> int:
    """The number of this host where another one supervises the run; 0 where we do."""
    launcher = registry.load("launchers", str(config.launcher["kind"]))
    return int(launcher.follows(config.launcher)) if hasattr(launcher, "follows") else 0


def _follow(config: Config, index: int) -> int:
    from orchestrator.runtime.follow import Follower

    run = RunDir(config.run_dir)
    run.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (code := _already_over(run)) is not None:
        return code
    click.echo(f"host {index} follows the supervisor of {run.path}")
    return Follower(run, index).run()


def _run_dir(config: Config) -> RunDir:
    """The run directory, made if it is not there; only its owner may read it."""
    path = config.run_dir
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ConfigError(f"run.dir={path} is a file, not a folder") from error
    except OSError as error:
        raise ConfigError(f"run.dir={path} cannot be made: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError(f"run.dir={path} cannot be written to")
    run = RunDir(path)
    if not run.journal.exists() and not run.batch.exists() and any(path.iterdir()):
        raise ConfigError(f"run.dir={path} is not empty and holds no run; name an empty or a new folder")
    if run.journal.exists():
        journal.header_of(run.journal)
    return run


def _already_over(run: RunDir) -> int | None:
    """A run that ended says so; a held or stopped one waits for an operator's release."""
    over = read_json(run.exit)
    if over is None or any(run.orders.glob("*.json")):
        return None
    if over["state"] in ("completed", "held", "stopped", "failed"):
        click.echo(f"{run.path}: this run is over already: {over['why']} (step {over['step']})")
        if over["state"] != "completed":
            click.echo(f"to go on: orchestrate ctl {run.path} release --why '...', then this command again")
        return int(over["code"])
    return None
