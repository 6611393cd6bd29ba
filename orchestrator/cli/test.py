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

    CASES are files, folders or names of policies; without any, all of ./policies (or the shipped ones).

    Exit codes: 0 all as expected, 1 some are not, 2 wrong usage or a file that cannot be read.
    """
    from orchestrator.review.cases import report

    results = [result for path in _files(cases) for result in report.run_file(path)]
    if pattern is not None:
        results = [result for result in results if pattern in result.case.name]
    if not results:
        raise ConfigError("there are no such cases")
    if junit is not None:
        Path(junit).write_text(report.as_junit(results), encoding="utf-8")
    if as_json:
        told = [
            {"file": str(r.file), "line": r.case.line, "name": r.case.name, "wrong": list(r.wrong)} for r in results
        ]
        click.echo(json.dumps({"cases": told}))
    else:
        click.echo(report.as_text(results))
    return 1 if any(result.wrong for result in results) else 0


def _files(given: tuple[str, ...]) -> list[Path]:
    """The case files that are meant."""
    if not given:
        given = ("policies",) if Path("policies").is_dir() else (str(policy_text.shipped()),)
    files: list[Path] = []
    for name in given:
        path = Path(name)
        if path.is_dir():
            files += sorted(path.glob("*.cases.yaml"))
        elif path.is_file():
            files.append(path)
        else:
            policy = policy_text.locate(name)
            beside = policy.with_name(policy.stem + ".cases.yaml")
            if not beside.is_file():
                raise ConfigError(f"{name}: there are no cases beside {policy}")
            files.append(beside)
    return files
