"""Rollbacks in the picture: an arrow from the place of the decision back to the checkpoint, and what was done."""

from collections.abc import Iterator
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
    """The room of a callout; its lines are anchored as SVG says."""

    left: float
    top: float
    right: float
    bottom: float
    lines: tuple[Line, ...]
    anchor: str

    def meets(self, other: "Box") -> bool:
        """Whether two would be drawn over each other."""
        beside = self.right < other.left or other.right < self.left
        return not (beside or self.bottom < other.top or other.bottom < self.top)


class Arc(NamedTuple):
    """An arrow's way: up to `lift` and down again."""

    begin: Place
    end: Place
    lift: float

    def box(self) -> Box:
        """The room that it takes; a cubic's top lies at three quarters of its handles' height."""
        (x1, y1), (x2, y2) = self.begin, self.end
        top = min(y1, y2, 0.25 * min(y1, y2) + 0.75 * self.lift)
        return Box(min(x1, x2), top, max(x1, x2), max(y1, y2), (), "")

    def drawn(self, solid: bool) -> Markup:
        """The arc, its tip, and a ring at the target; dashed where it was not done."""
        (x1, y1), (x2, y2) = self.begin, self.end
        path = f"M{number(x1)} {number(y1)}C{number(x1)} {number(self.lift)} "
        path += f"{number(x2)} {number(self.lift)} {number(x2)} {number(y2 - 17)}"
        tip = f"M{number(x2 - 6)} {number(y2 - 19)}h12l-6 11z"
        dashes = None if solid else "5 5"
        return joined(
            tag("path", d=path, fill="none", stroke=ALARM, stroke_width=3, stroke_dasharray=dashes),
            tag("path", d=tip, fill=ALARM),
            tag("circle", cx=x2, cy=y2, r=5.5, fill=PAPER, stroke=ALARM, stroke_width=2.5),
        )


def rollbacks(story: Story) -> list[Ordered]:
    """Every rollback that was decided, the newest ones of many."""
    return [o for o in story.actions() if o.action.verb == "rollback"][-SHOWN:]


def arrows(story: Story, x: Scale, y: Scale) -> Markup:
    """All of them, the newest on top and first to find room for its words."""
    drawn: list[Markup] = []
    arcs = [(ordered, _arc_of(story, ordered, x, y)) for ordered in reversed(rollbacks(story))]
    taken = [arc.box() for _, arc in arcs]
    for index, (ordered, arc) in enumerate(arcs):
        others = [box for other, box in enumerate(taken) if other != index]
        box = next((box for box in _places(_callout(story, ordered), arc, x) if _free(box, x, y, others)), None)
        taken += [box] if box else []
        drawn.append(tag("g", arc.drawn(done(ordered)), _said(box) if box else "", class_="rollback"))
    return joined(*reversed(drawn))


def done(ordered: Ordered) -> bool:
    """Whether it was carried out."""
    return ordered.applied and ordered.status != "failed"


def _arc_of(story: Story, ordered: Ordered, x: Scale, y: Scale) -> Arc:
    """From the loss at the decision to the loss at the target."""
    action, curves = ordered.action, story.heard.curves
    target = action.to_step or 0
    loss = curves.at("loss", action.attempt, action.step)
    home = _home(curves, action.attempt, target)
    begin = (x(action.step), y(loss) if loss is not None else y.begin)
    end = (x(target), y(home) if home is not None else y.begin)
    return Arc(begin, end, max(min(begin[1], end[1]) - 34, y.end + 14))


def _home(curves: Curves, attempt: int, step: int) -> float | None:
    """The loss at a rollback's target: of the newest attempt up to the rolled-back one that was there."""
    for earlier in range(attempt, 0, -1):
        points = curves.points("loss", earlier)
        if points and points[0][0] <= max(step, 1):
            return curves.at("loss", earlier, step)
    return None


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


def _places(lines: tuple[Line, ...], arc: Arc, x: Scale) -> Iterator[Box]:
    """Where a callout may stand: all of it to the right, its first line above, to the right, and so on."""
    middle = 0.5 * (arc.begin[1] + arc.end[1])
    one = lines[:1]
    for kept, side in ((lines, "start"), (one, "middle"), (one, "start"), (lines, "end"), (one, "end")):
        wide, high = 8 + max(width_of(line.text, _SIZE - 1) for line in kept), _LEADING * len(kept)
        if side == "middle":
            left = min(0.5 * (arc.begin[0] + arc.end[0] - wide), x.end + 7 - wide)
            top = arc.box().top - high - 4
        else:
            left = arc.begin[0] + 12 if side == "start" else arc.end[0] - 12 - wide
            top = middle - high / 2
        yield Box(left, top, left + wide, top + high, kept, side)


def _free(box: Box, x: Scale, y: Scale, taken: list[Box]) -> bool:
    inside = box.left > x.begin and box.right < x.end + 8 and box.top > y.end
    return inside and not any(map(box.meets, taken))


def _said(box: Box) -> Markup:
    halo: Look = {"paint_order": "stroke", "stroke": PAPER, "stroke_width": 5.0, "stroke_linejoin": "round"}
    halo["text_anchor"] = box.anchor
    at = {"start": box.left, "middle": 0.5 * (box.left + box.right), "end": box.right}[box.anchor]
    return joined(
        *(
            words(at, box.top + _LEADING * row + 16, line.text, _SIZE if line.bold else _SIZE - 1,
                  fill=line.fill, font_weight=700 if line.bold else 400, **halo)
            for row, line in enumerate(box.lines)
        )
    )  # fmt: skip
