"""orchestrate test: policy cases."""

import json
from pathlib import Path

import click

from orchestrator.cli import completing
from orchestrator.errors import ConfigError
from orchestrator.store import policy_text


@click.command(epilog="Example:  orchestrate test policies/pretrain.cases.yaml --junit results.xml")
@click.argument("cases", shell_complete=completing.policies, nargs=-1, metavar="[CASES...]")
@click.option("--junit", type=click.Path(dir_okay=False), metavar="FILE", help="Write the results as JUnit XML, too.")
@click.option("--run", "pattern", metavar="TEXT", help="Only cases whose name contains TEXT.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(cases: tuple[str, ...], junit: str | None, pattern: str | None, as_json: bool) -> int:
    """Run policy cases: input series and the incidents and actions that must come of them.

    CASES are files, folders or names of policies; without any, all of ./policies (or the shipped ones). For the
    file of a policy its cases are run, and those of the policies beside it that extend it.

    Exit codes: 0 all as expected, 1 some are not, 2 wrong usage or a file that cannot be read.
    """
    from orchestrator.review.cases import report

    files = _files(cases)
    results = [result for path in files for result in report.run_file(path)]
    if pattern is not None:
        results = [result for result in results if pattern in result.case.name]
    if files and not results:
        raise ConfigError("there are no such cases")
    if junit is not None:
        Path(junit).write_text(report.as_junit(results), encoding="utf-8")
    if as_json:
        told = [
            {"file": str(r.file), "line": r.case.line, "name": r.case.name, "wrong": list(r.wrong)} for r in results
        ]
        click.echo(json.dumps({"cases": told}))
    else:
        click.echo(report.as_text(results) if files else f"no cases are about {', '.join(cases)}")
    return 1 if any(result.wrong for result in results) else 0


def _files(given: tuple[str, ...]) -> list[Path]:
    """The case files that are meant."""
    if not given:
        given = ("policies",) if Path("policies").is_dir() else (str(policy_text.shipped()),)
    return list(dict.fromkeys(path for name in given for path in _named(name)))


def _named(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        found = sorted(path.glob("*.cases.yaml"))
        if not found:
            raise ConfigError(f"{name}: there are no cases here; write them as NAME.cases.yaml beside NAME.yaml")
        return found
    if path.is_file():
        return [path] if _holds_cases(path) else _about(path)
    policy = policy_text.locate(name)
    beside = policy.with_name(policy.stem + ".cases.yaml")
    if not beside.is_file():
        raise ConfigError(f"{name}: there are no cases beside {policy}")
    return [beside]


def _holds_cases(path: Path) -> bool:
    """Whether a file is one of cases, or cannot be read at all: reading it as one says why."""
    from orchestrator.store import yaml_text

    try:
        value = yaml_text.parse(path.read_text(encoding="utf-8"), str(path)).value
    except (OSError, ValueError):
        return True
    return not isinstance(value, dict) or "cases" in value or path.name.endswith(".cases.yaml")


def _about(policy: Path) -> list[Path]:
    """The case files of its folder that a change of a policy may break: its own, and those of what extends it."""
    from orchestrator.review.cases.text import read

    known = {path: policy_text.load(read(path).policy).layers for path in sorted(policy.parent.glob("*.cases.yaml"))}
    return [path for path, layers in known.items() if any(policy.samefile(layer.file) for layer in layers)]
