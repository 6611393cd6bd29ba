"""Findings as text, JSON, GitHub annotations and SARIF 2.1.0."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from orchestrator import __version__
from orchestrator.review.lint.pages import Page, pages
from orchestrator.store.yaml_text import Finding

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def as_text(found: Sequence[Finding]) -> str:
    """One a line: `file:line:column CODE message`."""
    return "\n".join(str(finding) for finding in found)


def as_json(found: Sequence[Finding]) -> str:
    """`{"findings": [{"file", "line", "column", "code", "severity", "message"}]}`."""
    told = [
        {"file": f.mark.file, "line": f.mark.line, "column": f.mark.column, "code": f.code, "severity": f.severity,
         "message": f.message}
        for f in found
    ]  # fmt: skip
    return json.dumps({"format_version": 1, "findings": told}, indent=2)


def as_github(found: Sequence[Finding]) -> str:
    """Workflow commands: GitHub shows them beside the lines of the pull request."""
    return "\n".join(map(_annotation, found))


def _annotation(finding: Finding) -> str:
    mark, title = finding.mark, f"title={_property(finding.code)}"
    if _no_file(finding):
        return f"::{finding.severity} {title}::{_data(f'{mark}: {finding.message}')}"
    place = f"file={_property(_relative(mark.file))},line={mark.line},col={mark.column}"
    return f"::{finding.severity} {place},{title}::{_data(finding.message)}"


def _no_file(finding: Finding) -> bool:
    """Whether it is about an override, a word of the command line: no viewer can open that."""
    return finding.mark.file.startswith("override ")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _relative(file: str) -> str:
    """Paths as a repository knows them, where the file lies below the current folder."""
    try:
        return Path(file).resolve().relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        return Path(file).as_posix()


def as_sarif(found: Sequence[Finding]) -> str:
    """One run of the tool with the rules it knows and a result a finding."""
    known = {page.code: i for i, page in enumerate(pages())}
    driver = {"name": "orchestrate lint", "version": __version__, "rules": [_rule(page) for page in pages()]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_result(f, known) for f in found]}
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(page: Page) -> dict[str, Any]:
    """A code with its page; GitHub refuses rules without `help`."""
    text = f"{page.text}\n\nThe same page: orchestrate lint --explain {page.code}"
    return {
        "id": page.code,
        "shortDescription": {"text": f"{page.title}."},
        "fullDescription": {"text": page.text},
        "help": {"text": text},
        "defaultConfiguration": {"level": page.severity},
    }


def _result(finding: Finding, known: dict[str, int]) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": known[finding.code],
        "level": finding.severity,
        "message": {"text": finding.message},
        "locations": [_location(finding)],
    }


def _location(finding: Finding) -> dict[str, Any]:
    if _no_file(finding):
        return {"logicalLocations": [{"fullyQualifiedName": str(finding.mark)}]}
    region = {"startLine": finding.mark.line, "startColumn": finding.mark.column}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(finding.mark.file)}, "region": region}}


def _uri(file: str) -> str:
    """A URI reference by RFC 3986: relative to the repository where it can be."""
    relative = _relative(file)
    return Path(relative).as_uri() if Path(relative).is_absolute() else quote(relative, safe="/")


FORMATS = {"text": as_text, "json": as_json, "github": as_github, "sarif": as_sarif}
