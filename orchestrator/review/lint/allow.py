"""Findings that the text itself allows, with a reason: `# orchestrate: allow ORC123 because ...`."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from orchestrator.store.yaml_text import Finding, Mark, Text

_MARK = re.compile(r"#\s*orchestrate:\s*(.*)")
_WHOLE = re.compile(r"allow\s+(ORC\d{3}(?:\s*,\s*ORC\d{3})*)\s+because\s+\S.*")
FIRST = "ORC100"  # what the schema finds cannot be allowed


class Allowance(NamedTuple):
    """One comment: where it stands, the line it speaks of, the codes it allows."""

    mark: Mark
    line: int
    codes: frozenset[str]


def allowances(text: Text) -> tuple[list[Allowance], list[Finding]]:
    """The allowances of one text, and findings about those that are incomplete."""
    found: list[Allowance] = []
    findings: list[Finding] = []
    lines = text.source.splitlines()
    for number, line in enumerate(lines, 1):
        if "orchestrate:" not in line or (comment := _MARK.search(line)) is None:
            continue
        mark = Mark(text.file, number, comment.start() + 1)
        if (whole := _WHOLE.fullmatch(comment[1].strip())) is None:
            message = "write '# orchestrate: allow ORC123 because ...', with the reason"
            findings.append(Finding(mark, "ORC008", message))
            continue
        about = number if line[: comment.start()].strip() else _next(lines, number)
        found.append(Allowance(mark, about, frozenset(re.findall(r"ORC\d{3}", whole[1]))))
    return found, findings


def _next(lines: Sequence[str], number: int) -> int:
    """The first line below a comment that is no comment itself."""
    for at in range(number, len(lines)):
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            return at + 1
    return number


def allowed(findings: Iterable[Finding], texts: Iterable[Text], file: str) -> list[Finding]:
    """The findings that remain, with those about the allowances of the file itself."""
    remaining = list(findings)
    for text in texts:
        known, wrong = allowances(text)
        for allowance in known:
            hit = [f for f in remaining if _covers(allowance, f)]
            remaining = [f for f in remaining if f not in hit]
            unused = allowance.codes - {f.code for f in hit}
            if unused and text.file == file:
                message = f"{', '.join(sorted(unused))} is not found here; take the allowance out"
                remaining.append(Finding(allowance.mark, "ORC009", message, "warning"))
        remaining += wrong if text.file == file else []
    return remaining


def _covers(allowance: Allowance, finding: Finding) -> bool:
    here = (finding.mark.file, finding.mark.line) == (allowance.mark.file, allowance.line)
    return here and finding.code in allowance.codes and finding.code >= FIRST
