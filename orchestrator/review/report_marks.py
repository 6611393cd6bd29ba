"""Incidents in the picture: a band from onset to end, and over it a number with the class and the answer."""

from typing import NamedTuple

from orchestrator.core.policy import SEVERITIES
from orchestrator.core.state import Incident, attempt_of
from orchestrator.review import report_words
from orchestrator.review.report_axes import ALARM, MILD, PAPER, Scale, line, width_of, words
from orchestrator.review.report_markup import Look, Markup, joined, tag
from orchestrator.review.report_story import Story

LANE, LANES = 26.0, 3
SHOWN = 200  # incidents that are drawn; the newest ones
_RADIUS = 9.5
_SIZE = 15.0


class Label(NamedTuple):
    """An incident's number and class above its onset `at`: `left` to `right` in one lane, text on either side."""

    incident: Incident
    at: float
    left: float
    right: float
    lane: int
    said: str  # its class and answer, as far as there is room
    after: bool  # the text stands to the right of the number


def shown(story: Story) -> list[Incident]:
    """The incidents that are drawn."""
    return story.incidents()[-SHOWN:]


def span(story: Story, incident: Incident) -> tuple[int, int]:
    """The steps of an incident, from its onset to its end or to where its attempt was left."""
    attempt = attempt_of(story.state, incident.attempt)
    reached = story.state.step
    if attempt is not None and incident.attempt != story.state.attempt:
        reached = attempt.reached
    return incident.onset, max(incident.end if incident.end is not None else reached, incident.onset)


def colour(incident: Incident) -> str:
    """Loud where it taints checkpoints."""
    return ALARM if incident.above_low else MILD


def labels(story: Story, x: Scale) -> list[Label]:
    """Room for the incidents' labels, the gravest first; one that finds none is not labelled."""
    placed: list[Label] = []
    order = sorted(shown(story), key=lambda i: (-SEVERITIES.index(i.severity), i.id))
    for incident in order:
        did = report_words.answer(story.actions(incident.id))
        full = f"{incident.cls}: {did}" if did else incident.cls
        ways = ((full, True), (incident.cls, True), ("", True), ("", False))  # at last a stem may cross a text
        tried = (_placed(incident, said, placed, x, clear) for said, clear in ways)
        placed += [label for label in tried if label is not None][:1]
    return placed


def _placed(incident: Incident, said: str, placed: list[Label], x: Scale, clear: bool) -> Label | None:
    at = x(incident.onset)
    beside = 8 + width_of(said, _SIZE) * 1.1 if said else 0.0
    after = at + _RADIUS + beside < x.end + _RADIUS
    left, right = at - _RADIUS - (0 if after else beside), at + _RADIUS + (beside if after else 0)
    for lane in range(LANES):
        label = Label(incident, at, left, right, lane, said, after)
        if not any(_meet(label, other, clear) for other in placed):
            return label
    return None


def _meet(one: Label, other: Label, clear: bool) -> bool:
    """Whether two labels lie on each other, or (`clear`) the upper one's stem runs through the lower one."""
    if one.lane == other.lane:
        return one.left < other.right + 8 and other.left < one.right + 8
    upper, lower = (one, other) if one.lane > other.lane else (other, one)
    return clear and lower.left - 3 < upper.at < lower.right + 3


def height(placed: list[Label]) -> float:
    """How much room the lanes take."""
    return LANE * (1 + max((label.lane for label in placed), default=-1))


def bands(story: Story, x: Scale, top: float, bottom: float) -> Markup:
    """Every incident's steps as a band; short ones still three pixels wide."""
    drawn = []
    for incident in shown(story):
        begin, end = span(story, incident)
        left, wide = x(begin), max(x(end) - x(begin), 3.0)
        look: Look = {"class_": f"incident incident-{incident.id}", "fill": colour(incident), "fill_opacity": 0.16}
        title = tag("title", f"incident {incident.id}: {incident.cls}, steps {begin} to {end}")
        drawn.append(tag("rect", title, x=left - 0.5, y=top, width=wide, height=bottom - top, **look))
    return joined(*drawn)


def badges(placed: list[Label], lanes_bottom: float, panel_top: float) -> Markup:
    """The labels: number in a disc, class beside it, and a stem to the band."""
    drawn = []
    for label in placed:
        incident, tone = label.incident, colour(label.incident)
        y = lanes_bottom - LANE * label.lane - LANE / 2
        centre = label.at
        drawn += [
            line(centre, y, centre, panel_top, tone, stroke_width=1.5, stroke_opacity=0.6),
            tag("circle", cx=centre, cy=y, r=_RADIUS, fill=tone),
            words(centre, y + 4.6, str(incident.id), 13, fill=PAPER, text_anchor="middle", font_weight=700),
        ]
        if label.said:
            weight = 700 if incident.above_low else 400
            at, anchor = (centre + _RADIUS + 6, "start") if label.after else (centre - _RADIUS - 6, "end")
            drawn.append(words(at, y + 5.2, label.said, _SIZE, fill=tone, font_weight=weight, text_anchor=anchor))
    return joined(*drawn)
