"""Results of cases as lines and as JUnit XML."""

import xml.etree.ElementTree as xml
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from orchestrator import registry
from orchestrator.errors import PolicyError
from orchestrator.review.cases.run import CaseRun, differences
from orchestrator.review.cases.text import Case, CaseFile, read
from orchestrator.store import policy_text


class Result(NamedTuple):
    """One case and what was wrong with it; nothing is good."""

    file: Path
    case: Case
    wrong: tuple[str, ...]


def run_file(path: Path) -> list[Result]:
    """Every case of a file; PolicyError where the file or its policy is wrong."""
    cases: CaseFile = read(path)
    return [Result(path, case, tuple(_run(cases.policy, case))) for case in cases.cases]


def _run(policy: Path, case: Case) -> list[str]:
    try:
        rules = registry.bind(policy_text.checked(policy_text.load(policy, case.overrides)))
    except PolicyError as error:
        return str(error).splitlines()
    return differences(case, CaseRun(rules, case).run().incidents())


def as_text(results: Sequence[Result]) -> str:
    """A line a failure with its reasons, and the count."""
    lines = []
    for result in results:
        if result.wrong:
            lines.append(f"{result.file}:{result.case.line}: FAILED {result.case.name}")
            lines += [f"    {text}" for text in result.wrong]
    failed = sum(1 for result in results if result.wrong)
    lines.append(f"{len(results)} case(s), {failed} failed" if failed else f"{len(results)} case(s), all as expected")
    return "\n".join(lines)


def as_junit(results: Sequence[Result]) -> str:
    """One test suite a file."""
    suites = xml.Element("testsuites")
    for file in dict.fromkeys(result.file for result in results):
        mine = [result for result in results if result.file == file]
        failed = sum(1 for result in mine if result.wrong)
        suite = xml.SubElement(suites, "testsuite", name=str(file), tests=str(len(mine)), failures=str(failed))
        for result in mine:
            case = xml.SubElement(suite, "testcase", classname=str(file), name=result.case.name)
            if result.wrong:
                failure = xml.SubElement(case, "failure", message=_printable(result.wrong[0]))
                failure.text = _printable("\n".join(result.wrong))
    xml.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(suites, encoding="unicode") + "\n"


def _printable(text: str) -> str:
    """XML 1.0 has no place for control characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
