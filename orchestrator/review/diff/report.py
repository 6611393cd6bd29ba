"""A difference of policies as text, as markdown for a comment, and as JSON."""

import re
from collections.abc import Sequence
from typing import Any

from orchestrator.review.diff.clauses import Clause
from orchestrator.review.diff.decisions import Compared, Difference
from orchestrator.review.report_words import WHAT

SHOWN = 50  # differences of one recording in a comment; the rest is counted


def as_json(names: tuple[str, str], clauses: Sequence[Clause], compared: Sequence[Compared]) -> dict[str, Any]:
    """Everything as plain values."""
    return {
        "format_version": 1,
        "old": names[0],
        "new": names[1],
        "clauses": [clause._asdict() for clause in clauses],
        "recordings": [
            {
                "recording": each.recording,
                "steps": each.steps,
                "same": each.same,
                "saved_steps": {"old": each.old["saved_steps"], "new": each.new["saved_steps"]},
                "differences": [
                    {"step": d.step, "what": list(d.what), "old": d.old, "new": d.new} for d in each.differences
                ],
            }
            for each in compared
        ],
    }


_DONE = {
    "hold": "hold for a person", "stop": "stop the job", "record": "write it down", "notify": "tell people",
    "checkpoint": "save a checkpoint", "skip": "skip updates", "relaunch": "start again", "dump": "dump the stacks",
    "exclude": "leave out the host", "reset_moments": "reset the optimizer's moments",
}  # fmt: skip


# --- words -------------------------------------------------------------------------------------------


def _trouble(incident: dict[str, Any]) -> str:
    rank = f" of rank {incident['rank']}" if incident["rank"] is not None else ""
    after = incident.get("counterfactual", {}).get("recording", "")
    what = WHAT.get(incident["class"], incident["class"])
    told = f"{what} ({incident['class']}{rank}, {incident['severity']}): {incident['reason']}"
    return f"{told}; the recording {after}" if after else told


def _answer(incident: dict[str, Any] | None) -> str:
    """What is done about it, in a few words."""
    if incident is None:
        return "sees nothing here"
    done = [text for action in incident["actions"] if (text := _action(action))]
    return f"at step {incident['actions'][0]['step']}: {', '.join(done)}" if done else "does nothing"


def _action(action: dict[str, Any]) -> str:
    verb, args = str(action["verb"]), action["args"]
    if verb == "rollback":
        where = f"the checkpoint of step {args['to_step']}" if args.get("path") else "a fresh start"
        return f"roll back to {where}"
    if verb in ("lr", "clip"):
        name = "learning rate" if verb == "lr" else "clip"
        return f"{name} to {100 * args['factor']:.3g}% of its plan"
    if verb == "quarantine":
        return f"leave out {len(args.get('shards', ()))} shard(s)"
    return _DONE.get(verb, verb)


def _cost(difference: Difference) -> str:
    """The estimate of both, where there is one."""
    known = [i.get("counterfactual", {}).get("saved_steps") if i else None for i in (difference.old, difference.new)]
    if all(value is None for value in known):
        return ""
    return " / ".join("-" if value is None else f"{value:+d}" for value in known)


def _summary(each: Compared) -> str:
    parted, seen = len(each.differences), len(each.differences) + each.same
    if not seen:
        return f"{each.steps} steps; nothing happened"
    incidents = f"{seen} incident{'s' if seen > 1 else ''}"
    if parted:
        return f"{each.steps} steps; {parted} of {incidents} decided differently"
    return f"{each.steps} steps; {incidents}, decided the same"


def _verdict(clauses: Sequence[Clause], compared: Sequence[Compared]) -> str:
    if not clauses:
        return "The two policies are the same: nothing that is in force differs."
    count = f"{len(clauses)} clause{'s differ' if len(clauses) > 1 else ' differs'}"
    looser = sum(1 for clause in clauses if clause.effect == "looser")
    warn = f", {looser} of them looser than before" if looser else ""
    if not compared:
        return f"{count}{warn}."
    parted = sum(len(each.differences) for each in compared)
    seen = parted + sum(each.same for each in compared)
    where = f"{len(compared)} recording{'s' if len(compared) > 1 else ''}"
    if not parted:
        return f"{count}{warn}; on {where} both policies decide the same everywhere."
    return f"{count}{warn}; on {where} {parted} of {seen} incident{'s' if seen > 1 else ''} would be met differently."


# --- text --------------------------------------------------------------------------------------------


def as_text(names: tuple[str, str], clauses: Sequence[Clause], compared: Sequence[Compared]) -> str:
    """For a terminal."""
    lines = [f"old: {names[0]}", f"new: {names[1]}", _verdict(clauses, compared)]
    for clause in clauses:
        effect = f"  [{clause.effect}]" if clause.effect else ""
        lines.append(f"  {clause.path}: {clause.old or 'nothing'} -> {clause.new or 'nothing'}{effect}")
    for each in compared:
        lines += ["", f"{each.recording}: {_summary(each)}"]
        for difference in each.differences:
            lines.append(f"  step {difference.step}: {_trouble(difference.old or difference.new or {})}")
            lines.append(f"    old: {_answer(difference.old)}")
            lines.append(f"    new: {_answer(difference.new)}")
            if cost := _cost(difference):
                lines.append(f"    steps saved by estimate, old / new: {cost}")
    return "\n".join(lines)


# --- markdown ----------------------------------------------------------------------------------------


def as_markdown(names: tuple[str, str], clauses: Sequence[Clause], compared: Sequence[Compared]) -> str:
    """For a comment on a pull request, for a reader who knows neither policy."""
    lines = ["## What this change of the run policy does", "", _verdict(clauses, compared)]
    if clauses:
        lines += ["", f"### Clauses (from {code(names[0])} to {code(names[1])})", ""]
        lines += ["| clause | before | after | protection | what it is about |", "|---|---|---|---|---|"]
        lines += [_clause(clause) for clause in clauses]
    if compared:
        lines += ["", "### Decisions on recorded runs", "", _EXPLAINED, ""]
        for each in compared:
            lines += _recording(each)
    return "\n".join(lines) + "\n"


_EXPLAINED = (
    "Both policies were asked at every incident of these recordings what they would do *there*; the recording goes "
    "on as it was, whatever they say. Steps saved are an estimate against what happened in the recording: the steps "
    "that it lost, less those that the answer trains again; below zero it costs more than the recording shows."
)


def _clause(clause: Clause) -> str:
    old, new = (code(value) if value is not None else "nothing" for value in (clause.old, clause.new))
    effect = f"**{clause.effect}**" if clause.effect == "looser" else clause.effect
    return f"| {code(clause.path)} | {old} | {new} | {effect} | {_with_code(clause.meaning)} |"


def _with_code(text: str) -> str:
    """The schema's own words, in which keys stand between backticks."""
    return "".join(code(part) if i % 2 else _SPECIAL.sub(r"\\\1", part) for i, part in enumerate(text.split("`")))


def _recording(each: Compared) -> list[str]:
    lines = [f"#### {code(each.recording)}", "", f"{_summary(each)}."]
    if each.differences:
        head = "| step | what happened | before | after | steps saved: before / after |"
        lines += ["", head, "|---|---|---|---|---|"]
    for difference in each.differences[:SHOWN]:
        known = difference.old or difference.new or {}
        cells = [escaped(_trouble(known)), escaped(_answer(difference.old)), escaped(_answer(difference.new))]
        lines.append(f"| {difference.step} | {' | '.join(cells)} | {_cost(difference)} |")
    if (more := len(each.differences) - SHOWN) > 0:
        lines += ["", f"... and {more} more."]
    return [*lines, ""]


_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~@&$-])")


def escaped(text: str) -> str:
    """Text that markdown, HTML and mentions leave alone, on one line.

    >>> escaped("a|b <script>")
    'a\\\\|b \\\\<script\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Text as code in a table cell."""
    inner = " ".join(text.split()).replace("|", "\\|")
    fence = "``" if "`" in inner else "`"
    pad = " " if "`" in inner else ""
    return f"{fence}{pad}{inner}{pad}{fence}"
