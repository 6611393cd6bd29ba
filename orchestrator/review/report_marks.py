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
    """An incident's number and class above its place: `left` to `right` in one lane, pointing to `at`."""

    incident: Incident
    at: float
    left: float
    right: float
    lane: int
    said: str  # its class and answer, as far as there is room


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
        for said in dict.fromkeys((f"{incident.cls}: {did}" if did else incident.cls, incident.cls, "")):
            if (label := _placed(incident, x(incident.onset), said, placed, x)) is not None:
                placed.append(label)
                break
    return placed


def _placed(incident: Incident, at: float, said: str, placed: list[Label], x: Scale) -> Label | None:
    wide = 2 * _RADIUS + (8 + width_of(said, _SIZE) * 1.1 if said else 0)
    left = min(max(at - _RADIUS, x.begin - _RADIUS), x.end + _RADIUS - wide)
    for lane in range(LANES):
        if all(label.lane != lane or label.right + 8 < left or left + wide + 8 < label.left for label in placed):
            return Label(incident, at, left, left + wide, lane, said)
    return None


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
        centre = label.left + _RADIUS
        stem = min(max(label.at, centre - _RADIUS), label.right)
        drawn += [
            line(stem, y, label.at, panel_top, tone, stroke_width=1.5, stroke_opacity=0.6),
            tag("circle", cx=centre, cy=y, r=_RADIUS, fill=tone),
            words(centre, y + 4.6, str(incident.id), 13, fill=PAPER, text_anchor="middle", font_weight=700),
        ]
        if label.said:
            weight = 700 if incident.above_low else 400
            text = words(centre + _RADIUS + 6, y + 5.2, label.said, _SIZE, fill=tone, font_weight=weight)
            drawn.append(text)
    return joined(*drawn)
