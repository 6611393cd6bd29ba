"""Rollbacks in the picture: an arrow from the place of the decision back to the checkpoint, and what was done."""

from typing import NamedTuple, TypeAlias

from orchestrator.core.state import Ordered, find
from orchestrator.review import report_words
from orchestrator.review.report_axes import ALARM, INK, PAPER, Scale, colour_of, width_of, words
from orchestrator.review.report_markup import Look, Markup, joined, number, tag
from orchestrator.review.report_series import Curves
from orchestrator.review.report_story import Story

SHOWN = 100  # rollbacks that are drawn; the newest ones
_SIZE, _LEADING = 16.0, 21.0

Place: TypeAlias = tuple[float, float]


class Line(NamedTuple):
    """One line of a callout."""

    text: str
    fill: str
    bold: bool


class Box(NamedTuple):
    """The room of a callout; its lines begin at `left` or end at `right`."""

    left: float
    top: float
    right: float
    bottom: float
    lines: tuple[Line, ...]
    after: bool  # to the right of its arrow

    def meets(self, other: "Box") -> bool:
        """Whether two would be drawn over each other."""
        beside = self.right < other.left or other.right < self.left
        return not (beside or self.bottom < other.top or other.bottom < self.top)


def rollbacks(story: Story) -> list[Ordered]:
    """Every rollback that was decided, the newest ones of many."""
    return [o for o in story.actions() if o.action.verb == "rollback"][-SHOWN:]


def arrows(story: Story, x: Scale, y: Scale) -> Markup:
    """All of them, the newest on top and first to find room for its words."""
    drawn: list[Markup] = []
    boxes: list[Box] = []
    for ordered in reversed(rollbacks(story)):
        begin, end = _ends(story, ordered, x, y)
        box = _room(_callout(story, ordered), x, begin, end, boxes)
        boxes += [box] if box else []
        arc = _arc(begin, end, max(min(begin[1], end[1]) - 34, y.end + 14), done(ordered))
        drawn.append(tag("g", arc, _said(box) if box else "", class_="rollback"))
    return joined(*reversed(drawn))


def done(ordered: Ordered) -> bool:
    """Whether it was carried out."""
    return ordered.applied and ordered.status != "failed"


def _ends(story: Story, ordered: Ordered, x: Scale, y: Scale) -> tuple[Place, Place]:
    """Where the arrow begins and ends: the loss at the decision and at the target."""
    action, curves = ordered.action, story.heard.curves
    target = action.to_step or 0
    loss = curves.at("loss", action.attempt, action.step)
    home = _home(curves, action.attempt, target)
    return (x(action.step), y(loss) if loss is not None else y.begin), (x(target), y(home) if home else y.begin)


def _home(curves: Curves, attempt: int, step: int) -> float | None:
    """The loss at a rollback's target: of the newest attempt up to the rolled-back one that was there."""
    for earlier in range(attempt, 0, -1):
        points = curves.points("loss", earlier)
        if points and points[0][0] <= max(step, 1):
            return curves.at("loss", earlier, step)
    return None


def _arc(begin: Place, end: Place, lift: float, solid: bool) -> Markup:
    path = f"M{number(begin[0])} {number(begin[1])}C{number(begin[0])} {number(lift)} "
    path += f"{number(end[0])} {number(lift)} {number(end[0])} {number(end[1] - 17)}"
    tip = f"M{number(end[0] - 6)} {number(end[1] - 19)}h12l-6 11z"
    dashes = None if solid else "5 5"
    return joined(
        tag("path", d=path, fill="none", stroke=ALARM, stroke_width=3, stroke_dasharray=dashes),
        tag("path", d=tip, fill=ALARM),
        tag("circle", cx=end[0], cy=end[1], r=5.5, fill=PAPER, stroke=ALARM, stroke_width=2.5),
    )


# --- the words beside it -----------------------------------------------------------------------------


def _callout(story: Story, ordered: Ordered) -> tuple[Line, ...]:
    """Where the arrow goes, what else the same decision did, and whether that helped."""
    action = ordered.action
    target = f"step {action.to_step:,}" if action.to_step else "the beginning"
    if not done(ordered):
        return (Line(f"not applied: back to {target}", ALARM, True),)
    mine = story.actions(action.incident)
    beside = [
        phrase
        for other in mine
        if other is not ordered and (other.action.attempt, other.action.step) == (action.attempt, action.step)
        and (phrase := report_words.done_phrase(other))
    ]  # fmt: skip
    lines = [Line(f"rolled back to {target}", ALARM, True), *(Line(phrase, INK, False) for phrase in beside)]
    incident = find(story.state, action.incident)
    last = next(o for o in reversed(mine) if o.action.verb == "rollback") is ordered
    if incident is not None and last and incident.stage in _AFTER:
        after = f"attempt {action.attempt + 1}: {_AFTER[incident.stage]}"
        lines.append(Line(after, colour_of(action.attempt + 1), True))
    return tuple(lines)


_AFTER = {"closed": "old level holds", "probation": "on probation"}


def _room(lines: tuple[Line, ...], x: Scale, begin: Place, end: Place, taken: list[Box]) -> Box | None:
    """Room for all lines or the first, to the right of the arrow or to its left; None where there is none."""
    for kept in (lines, lines[:1]):
        wide = 8 + max(width_of(line.text, _SIZE) for line in kept)
        high = _LEADING * len(kept)
        top = 0.5 * (begin[1] + end[1]) - high / 2
        for after in (True, False):
            left = begin[0] + 12 if after else end[0] - 12 - wide
            box = Box(left, top, left + wide, top + high, kept, after)
            if box.left > x.begin and box.right < x.end + 8 and not any(map(box.meets, taken)):
                return box
    return None


def _said(box: Box) -> Markup:
    halo: Look = {"paint_order": "stroke", "stroke": PAPER, "stroke_width": 5.0, "stroke_linejoin": "round"}
    halo["text_anchor"] = "start" if box.after else "end"
    at = box.left if box.after else box.right
    return joined(
        *(
            words(at, box.top + _LEADING * row + 16, line.text, _SIZE if line.bold else _SIZE - 1,
                  fill=line.fill, font_weight=700 if line.bold else 400, **halo)
            for row, line in enumerate(box.lines)
        )
    )  # fmt: skip
