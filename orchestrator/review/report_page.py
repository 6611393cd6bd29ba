"""The report as one HTML page: the picture, what happened in sentences, every table; nothing external."""

from collections.abc import Iterable, Sequence

from orchestrator.core.state import Incident
from orchestrator.review import report_words
from orchestrator.review.report_chart import chart
from orchestrator.review.report_markup import Markup, clean, joined, tag
from orchestrator.review.report_story import Story
from orchestrator.review.status import status_json

ROWS = 500  # rows of a table at most; the newest ones
TOLD = 50  # incidents that are told in sentences, the newest ones

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --muted: #59636e; --line: #d0d7de; --paper: #ffffff; --soft: #f4f6f8;
  --bad: #c44601; --good: #00694e; --mild: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --muted: #9aa5b1; --line: #3d444d; --paper: #0d1117;
  --soft: #161b22; --bad: #ff9a5c; --good: #4cc9a0; --mild: #e3b341; } }
body { margin: 0 auto; max-width: 980px; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
h2 { margin: 2.2rem 0 .6rem; font-size: 1.25rem; }
h3 { margin: 1.4rem 0 .3rem; font-size: 1.05rem; }
dl { display: grid; grid-template-columns: 9.5rem 1fr; gap: .15rem 1rem; margin: .3rem 0; }
dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; } th { color: var(--muted); font-weight: 600; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { overflow-x: auto; padding: 1rem; background: var(--soft); font-size: .85rem; }
.bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); } .mild { color: var(--mild); }
.note { color: var(--muted); }
"""
_TONES = {
    "high": "bad", "critical": "bad", "medium": "mild", "confirmed": "good", "refuted": "bad", "failed": "bad",
    "unverifiable": "mild", "healthy": "good", "suspect": "mild", "bad": "bad", "missing": "mild", "held": "bad",
}  # fmt: skip


def page(story: Story) -> str:
    """The whole document; every name and every text of the run is escaped."""
    body = joined(
        tag("main", chart(story), _happened(story), _incidents(story), _actions(story), _checkpoints(story),
            _quarantine(story), _limits(story), _policy(story))
    )  # fmt: skip
    head = joined(
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", f"{story.name}: {story.state.status}"),
        tag("style", Markup(_STYLE)),
    )
    return f'<!doctype html>\n<html lang="en">{tag("head", head)}{tag("body", body)}</html>\n'


def _section(title: str, *content: str) -> Markup:
    return tag("section", tag("h2", title), *content)


def _table(names: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Markup:
    """Numbers to the right; words that say good or bad in their colour."""
    known = list(rows)
    head = tag("tr", *(tag("th", name) for name in names))
    shown = [tag("tr", *(_cell(value) for value in row)) for row in known[-ROWS:]]
    note = f"The newest {ROWS} of {len(known):,}." if len(known) > ROWS else ""
    table = tag("table", tag("thead", head), tag("tbody", *shown))
    return joined(tag("div", table, class_="wide"), tag("p", note, class_="note") if note else "")


def _cell(value: str | int) -> Markup:
    if isinstance(value, int):
        return tag("td", f"{value:,}", class_="n")
    return tag("td", value, class_=_TONES.get(value))


# --- the sections ------------------------------------------------------------------------------------


def _happened(story: Story) -> Markup:
    incidents = story.incidents()
    told = [tag("p", report_words.stands(story))]
    if not incidents:
        told.append(tag("p", "There was no incident."))
    if len(incidents) > TOLD:
        told.append(tag("p", f"The newest {TOLD} of {len(incidents):,} incidents:", class_="note"))
    told += [_told(story, incident) for incident in incidents[-TOLD:]]
    if steps := report_words.next_steps(story):
        told += [tag("h3", "What to do"), tag("ol", *(tag("li", step) for step in steps))]
    return _section("What happened", *told)


def _told(story: Story, incident: Incident) -> Markup:
    title = f"Incident {incident.id}: {incident.cls} ({incident.severity})"
    parts = [joined(tag("dt", name), tag("dd", text)) for name, text in report_words.paragraphs(story, incident)]
    return joined(tag("h3", title, id=f"incident-{incident.id}"), tag("dl", *parts))


def _incidents(story: Story) -> Markup:
    names = ("#", "class", "severity", "stage", "attempt", "onset", "detected", "end", "peak", "reason")
    rows = (
        (i.id, i.cls, i.severity, i.stage, i.attempt, i.onset, i.detected, i.end if i.end is not None else "–",
         f"{i.peak:.4g}" if i.peak is not None else "–", i.reason)
        for i in story.incidents()
    )  # fmt: skip
    return _section("Incidents", _table(names, rows)) if story.incidents() else Markup()


def _actions(story: Story) -> Markup:
    """Every action; those that no incident caused stand without a number."""
    names = ("step", "incident", "action", "what", "outcome", "said of it")
    rows = (
        (o.action.step, o.action.incident or "–", o.action.verb, report_words.action_phrase(o.action),
         o.status if o.applied else "not applied", o.detail or o.action.why)
        for o in story.actions()
    )  # fmt: skip
    return _section("Actions and their outcomes", _table(names, rows)) if story.actions() else Markup()


def _checkpoints(story: Story) -> Markup:
    rows = [(step, attempt, v.health, v.reason, path) for step, attempt, path, v in story.checkpoints()]
    if not rows:
        return _section("Checkpoints", tag("p", "None was seen yet."))
    return _section("Checkpoints", _table(("step", "attempt", "health", "reason", "path"), rows))


def _quarantine(story: Story) -> Markup:
    known = story.state.levels.quarantine
    hosts = story.state.levels.hosts
    left_out = tag("p", f"Hosts left out: {', '.join(hosts)}.") if hosts else ""
    if not known:
        return _section("Quarantine", tag("p", "No data is left out."), left_out)
    rows = (
        (shard, incident or "an operator", expires if expires is not None else "never", _standing(story, expires))
        for shard, incident, expires in known
    )
    return _section("Quarantine", _table(("shard", "incident", "until step", "now"), rows), left_out)


def _standing(story: Story, expires: int | None) -> str:
    return "expired" if expires is not None and story.state.frontier >= expires else "left out"


def _limits(story: Story) -> Markup:
    limits = status_json(story.rules, story.state)["limits"]
    backs, starts = limits["rollbacks"], limits["relaunches"]
    rows: list[tuple[str | int, ...]] = [
        ("rollbacks", backs["spent"], backs["max"], f"within {backs['per']:,} steps"),
        ("relaunches", starts["spent"], starts["max"], "since progress"),
    ]
    for cause, spent in limits["failures"].items():
        failure = getattr(story.rules.policy.failures, cause, None)
        rows.append((cause, spent, failure.max if failure else "–", "since progress"))
    return _section("Limits spent", _table(("limit", "spent", "allowed", "counted"), rows))


def _policy(story: Story) -> Markup:
    changes = [
        tag("li", f"Supervisor {change.epoch} brought policy {change.digest} at step {change.step:,}.")
        for change in story.heard.revised
    ]
    text = tag("pre", clean(story.policy_text))
    return _section(
        "Policy",
        tag("p", "In force: ", tag("code", story.digest or "no digest"), f", mode {story.rules.policy.mode}."),
        tag("ul", *changes) if changes else "",
        tag("details", tag("summary", "The whole text"), text),
    )
