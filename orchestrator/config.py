"""The run configuration (Hydra) and every path of a run directory."""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from orchestrator import wire
from orchestrator.core.launch import Own
from orchestrator.errors import ConfigError

PACKAGE = Path(__file__).resolve().parent
_SPECIAL = re.compile(r"[^\w/\\+.$%*@?|: -]")  # what Hydra reads as more than a word
KEYS = ("job", "launcher", "telemetry", "checkpoints", "run", "stop", "history")


@dataclass(frozen=True)
class Job:
    """What is supervised."""

    command: tuple[str, ...]
    cwd: str
    env: dict[str, str] = field(default_factory=dict)
    resume: tuple[str, ...] = ()  # added to the command where there is a checkpoint to resume from
    reset_moments: tuple[str, ...] = ()  # added where the optimizer's moments are to begin anew
    total_steps: int | None = None  # of a trainer that does not say so itself
    own: Own = field(default_factory=Own)


@dataclass(frozen=True)
class Config:
    """One run: the job, how it is started, where its telemetry and checkpoints are, and the policy's name."""

    root: Path
    run_dir: Path
    job: Job
    policy: str
    overrides: tuple[str, ...]
    launcher: dict[str, Any]
    telemetry: dict[str, Any]
    checkpoints: dict[str, Any]
    stop_grace: float = 30.0
    values: dict[str, Any] = field(default_factory=dict)


def shipped() -> Path:
    """The folder of the configurations that come with the product."""
    inside = PACKAGE / "conf"
    return inside if inside.is_dir() else PACKAGE.parent / "conf"


def find(name: str) -> Path:
    """`conf=NAME`: as given, then in conf/, then among the shipped ones."""
    for candidate in (Path(name), Path("conf") / name, shipped() / name):
        for path in (candidate, candidate.with_name(candidate.name + ".yaml")):
            if path.is_file():
                return path.resolve()
    known = sorted({path.name for folder in (Path("conf"), shipped()) for path in folder.glob("*.yaml")})
    near = get_close_matches(name, known, 1)
    raise ConfigError(f"conf={name}: no such configuration" + (f"; did you mean {near[0]}?" if near else ""))


def load(arguments: Sequence[str]) -> Config:
    """The configuration of `orchestrate run conf=NAME [key=value ...]`; ConfigError says what is wrong."""
    conf, policy, overrides, rest = split(arguments)
    path = find(conf)
    values = _compose(path, rest)
    root = path.parent.parent if path.parent.name == "conf" else path.parent
    if root in (PACKAGE, PACKAGE.parent) and not (root / "examples").is_dir():
        root = Path.cwd()
    return _config(path, root, values, policy, overrides)


def split(arguments: Sequence[str]) -> tuple[str, str | None, tuple[str, ...], list[str]]:
    """conf=, policy= and policy.KEY= taken out; what is left is Hydra's."""
    conf, policy, overrides, rest = None, None, [], []
    for argument in arguments:
        if "=" not in argument:
            raise ConfigError(f"{argument!r}: write key=value, such as conf=pretrain.yaml")
        key, _, value = argument.partition("=")
        if key == "conf":
            conf = value
        elif key == "policy":
            policy = value
        elif key.startswith("policy."):
            overrides.append(argument.removeprefix("policy."))
        else:
            rest.append(argument)
    if not conf:
        raise ConfigError("which run? write conf=NAME, such as conf=pretrain.yaml")
    return conf, policy, tuple(overrides), rest


def _compose(path: Path, overrides: list[str]) -> dict[str, Any]:
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    _quoted_where_needed(overrides)
    try:
        with initialize_config_dir(config_dir=str(path.parent), version_base="1.3"):
            composed = compose(config_name=path.stem, overrides=overrides)
        missing = _open(OmegaConf.to_container(composed, resolve=False))
        if missing:
            raise ConfigError(f"{path}: {', '.join(missing)} is not set; add {missing[0]}=VALUE")
        values = OmegaConf.to_container(composed, resolve=True)
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(f"{path}: {_words(error)}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a configuration is a mapping of keys")
    return {str(key): value for key, value in values.items()}


def _quoted_where_needed(overrides: list[str]) -> None:
    """ConfigError names the override that Hydra cannot read as one value, its column, and how to write it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    for text in overrides:
        try:
            if not parser.parse_override(text).is_sweep_override():
                continue
        except HydraException:
            pass
        key, _, value = text.partition("=")
        column = len(key) + 2 + (found.start() if (found := _SPECIAL.search(value)) else 0)
        written = shlex.quote(f'{key}="{value}"' if '"' not in value else f"{key}='{value}'")
        raise ConfigError(f"override {text!r}, column {column}: a value with such characters is quoted: {written}")


def _open(values: Any, path: str = "") -> list[str]:
    """The keys that are still `???`; what only refers to one of them is not among them."""
    if isinstance(values, dict):
        return [name for key in values for name in _open(values[key], f"{path}.{key}" if path else str(key))]
    return [path] if values == "???" else []


def _words(error: Exception) -> str:
    cause = error.__cause__ or error
    lines = [line.strip() for line in str(cause if str(cause) else error).splitlines() if line.strip()]
    return "; ".join(lines[:3])


def _config(path: Path, root: Path, values: dict[str, Any], policy: str | None, overrides: tuple[str, ...]) -> Config:
    job = _section(path, values, "job")
    command = job.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(c, str | int | float) for c in command):
        raise ConfigError(f"{path}: job.command must be a list of words, such as [python, train.py]")
    run = _section(path, values, "run")
    if not isinstance(run.get("dir"), str) or not run["dir"]:
        raise ConfigError(f"{path}: run.dir is not set; add run.dir=PATH")
    name = policy or values.get("policy")
    if not isinstance(name, str):
        raise ConfigError(f"{path}: no policy; add policy=NAME, such as policy=pretrain")
    cwd = root / str(job.get("cwd") or ".")
    if not cwd.is_dir():
        raise ConfigError(f"{path}: job.cwd: there is no folder {cwd}")
    return Config(
        root=root,
        run_dir=Path(os.path.abspath(root / run["dir"])),
        job=_job(path, job, str(cwd)),
        policy=name,
        overrides=overrides,
        launcher={"kind": "local", **_section(path, values, "launcher", {})},
        telemetry={"kind": "wire", **_section(path, values, "telemetry", {})},
        checkpoints={"layout": "dcp", "root": "checkpoints", **_section(path, values, "checkpoints", {})},
        stop_grace=float(_section(path, values, "stop", {}).get("grace", 30.0)),
        values=values,
    )


def _job(path: Path, job: dict[str, Any], cwd: str) -> Job:
    def words(name: str) -> tuple[str, ...]:
        found = job.get(name) or []
        if not isinstance(found, list):
            raise ConfigError(f"{path}: job.{name} must be a list of words")
        return tuple(str(word) for word in found)

    def number(name: str) -> float | None:
        found = job.get(name)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float) or found <= 0):
            raise ConfigError(f"{path}: job.{name} must be a positive number, got {found!r}")
        return found

    env = {str(key): str(value) for key, value in (job.get("env") or {}).items()}
    total = number("total_steps")
    own = Own(number("lr"), number("clip"))
    steps = None if total is None else int(total)
    made = Job(words("command"), cwd, env, words("resume"), words("reset_moments"), steps, own)
    if own.lr is None and any("{lr}" in word for word in (*made.command, *made.resume)) and not job.get("lr"):
        raise ConfigError(f"{path}: {{lr}} in job.command needs job.lr, the rate without any cut")
    return made


def _section(path: Path, values: dict[str, Any], name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
    section = values.get(name, default)
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: {name} must be a mapping" + ("" if name in values else "; it is missing"))
    return section


_SECRET = re.compile(r"(?i)(secret|token|passw|api_?key|credential|private)")


def redacted(values: Any) -> Any:
    """The configuration as it may be journaled: values under telling names are blanked out.

    >>> redacted({"env": {"HF_TOKEN": "abc", "steps": 3}})
    {'env': {'HF_TOKEN': '***', 'steps': 3}}
    """
    if isinstance(values, dict):
        return {
            k: "***" if _SECRET.search(str(k)) and not isinstance(v, dict) else redacted(v) for k, v in values.items()
        }
    if isinstance(values, list):
        return [redacted(value) for value in values]
    if isinstance(values, str) and (match := re.match(r"(--?[\w-]+)=(.*)", values)) and _SECRET.search(match[1]):
        return f"{match[1]}=***"
    return values


@dataclass(frozen=True)
class RunDir:
    """Every path of a run directory."""

    path: Path

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def exit(self) -> Path:
        return self.path / "exit.json"

    @property
    def epochs(self) -> Path:
        return self.path / "epochs"

    @property
    def foreign(self) -> Path:
        """What stood in the checkpoint root before the first attempt."""
        return self.path / "foreign.json"

    @property
    def lease(self) -> Path:
        return self.path / "lease.json"

    @property
    def orders(self) -> Path:
        return self.path / "orders"

    @property
    def snapshot(self) -> Path:
        """The state at some place of the journal."""
        return self.path / "snapshot.json"

    @property
    def batch(self) -> Path:
        """The script that a scheduler was given."""
        return self.path / "submit.sh"

    @property
    def package(self) -> Path:
        """A folder that holds only `orchestrator`, for the job's path."""
        return self.path / "path"

    def attempt(self, number: int) -> "AttemptDir":
        """The paths of one attempt."""
        return AttemptDir(self.path / "attempts" / f"{number:04d}")


@dataclass(frozen=True)
class AttemptDir:
    """Every path of one attempt; the trainer's side knows some of them through `wire`."""

    path: Path

    @property
    def launch(self) -> Path:
        return self.path / "launch.json"

    @property
    def process(self) -> Path:
        return self.path / "process.json"

    @property
    def exit(self) -> Path:
        return self.path / "exit.json"

    @property
    def beat(self) -> Path:
        """What the keeper counts on while it lives, for eyes on other hosts."""
        return self.path / "beat"

    @property
    def end(self) -> Path:
        """Asks the keeper to end the job, where a signal cannot reach it."""
        return self.path / "end"

    @property
    def output(self) -> Path:
        return self.path / "output.log"

    @property
    def quarantine(self) -> Path:
        return self.path / "quarantine.txt"

    @property
    def stacks(self) -> Path:
        return self.path / wire.STACKS

    @property
    def error(self) -> Path:
        """Where torchrun leaves the first failing rank's message."""
        return self.path / "error.json"
