"""orchestrate doctor: what is missing here, before a run finds out."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from orchestrator import registry
from orchestrator.config import Config, load
from orchestrator.registry import Family
from orchestrator.store import policy_text

LOW_DISK = 5 << 30  # bytes


class Finding(NamedTuple):
    """One thing looked at: `word` is ok, missing or wrong; only the last is an obstacle."""

    what: str
    word: str
    detail: str


@click.command(epilog="Example:  orchestrate doctor conf=pretrain.yaml")
@click.argument("arguments", nargs=-1, metavar="[conf=NAME key=value ...]")
def command(arguments: tuple[str, ...]) -> int:
    """Say what is missing here: programs, the notification's address, and whether this configuration can run.

    Exit codes: 0 nothing is in the way; 1 something is.
    """
    found = [*_here(), *(_of(load(arguments)) if arguments else ())]
    table = Table(box=None, show_header=False)
    colours = {"ok": "green", "missing": "yellow", "wrong": "red"}
    for finding in found:
        table.add_row(finding.what, f"[{colours[finding.word]}]{finding.word}[/]", finding.detail)
    Console(highlight=False, soft_wrap=True).print(table)
    return 1 if any(finding.word == "wrong" for finding in found) else 0


def _here() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok" if sys.version_info >= (3, 11) else "wrong", f"{version} at {sys.executable}")
    yield _torch()
    for program, use in (("sbatch", "orchestrate submit"), ("py-spy", "stacks of jobs without the hook")):
        where = shutil.which(program)
        yield Finding(program, "ok" if where else "missing", where or f"only needed for {use}")
    for name in registry.names("notify"):
        told = registry.load("notify", name).address() is not None
        yield Finding(f"notify {name}", "ok" if told else "missing", "has an address" if told else "has no address")


def _torch() -> Finding:
    code = "import torch; print(torch.__version__, torch.cuda.device_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        return Finding("torch", "missing", "not in this environment; the job may have its own")
    version, devices = done.stdout.split()
    return Finding("torch", "ok", f"{version}, {devices} accelerator(s)")


def _of(config: Config) -> Iterator[Finding]:
    """The configuration's own needs."""
    text = policy_text.load(policy_text.locate(config.policy, config.root), config.overrides)
    registry.bind(policy_text.checked(text))
    yield Finding("policy", "ok", text.file)
    for family, name in _plugins(config):
        known = name in registry.names(family)
        detail = name if known else f"{name!r}; known are {', '.join(registry.names(family))}"
        yield Finding(family, "ok" if known else "wrong", detail)
    yield _command(config)
    yield _writable(config.run_dir)


def _plugins(config: Config) -> tuple[tuple[Family, str], ...]:
    return (
        ("launchers", str(config.launcher["kind"])),
        ("telemetry", str(config.telemetry["kind"])),
        ("checkpoints", str(config.checkpoints["layout"])),
    )


def _command(config: Config) -> Finding:
    first = config.job.command[0]
    if config.launcher["kind"] != "local":
        return Finding("job.command", "ok", "started by the launcher")
    where = sys.executable if first == "python" else shutil.which(first, path=os.environ.get("PATH"))
    local = (Path(config.job.cwd) / first).is_file()
    return Finding("job.command", "ok" if where or local else "wrong", where or f"{first}: there is no such program")


def _writable(path: Path) -> Finding:
    """Whether the run directory, or the nearest folder above it that exists, takes files, and how many more."""
    folder = next(parent for parent in (path, *path.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("run.dir", "wrong", f"{folder}: {error.strerror}")
    word = "ok" if free > LOW_DISK else "wrong"
    return Finding("run.dir", word, f"{folder}, {free / (1 << 30):.0f} GiB free")
