"""Curves as paths: each attempt in its colour, what a rollback abandoned faded."""

from collections.abc import Sequence

from orchestrator.review.report_axes import ALARM, INK, MUTED, PAPER, Scale, colour_of, line, words
from orchestrator.review.report_markup import Markup, joined, number, tag
from orchestrator.review.report_series import Point
from orchestrator.review.report_story import EVAL, Story

_EVAL_GAP = 14.0  # pixels between two evaluation marks at least


def curve(story: Story, name: str, x: Scale, y: Scale, width: float = 2.0) -> Markup:
    """One curve of all attempts; the parts that count are drawn over the abandoned ones."""
    faded, kept = [], []
    for attempt in story.heard.curves.attempts(name):
        points, until = story.heard.curves.points(name, attempt), story.counts_until(attempt)
        counted = [point for point in points if point[0] <= until]
        left = [point for point in points if point[0] > until]
        if left:
            left = [*counted[-1:], *left]
            faded.append(_path(left, x, y, attempt, width, True))
        if counted:
            kept.append(_path(counted, x, y, attempt, width, False))
    return joined(*faded, *kept)


def _path(points: Sequence[Point], x: Scale, y: Scale, attempt: int, width: float, faded: bool) -> Markup:
    places = [f"{number(x(step))} {number(y(value))}" for step, value in points]
    path = "M" + "L".join(places if len(places) > 1 else places * 2)
    kind = "abandoned" if faded else "kept"
    return tag(
        "path", class_=f"{kind} attempt-{attempt}", d=path, fill="none", stroke=colour_of(attempt), stroke_width=width,
        stroke_opacity=0.55 if faded else None, stroke_linejoin="round", stroke_linecap="round",
    )  # fmt: skip


def nonfinite(story: Story, x: Scale, top: float) -> Markup:
    """A cross at the upper edge wherever a value was not finite."""
    drawn = []
    for attempt in story.heard.curves.attempts("nonfinite"):
        for step, _ in story.heard.curves.points("nonfinite", attempt):
            at = number(x(step))
            cross = f"M{at} {number(top + 7)}m-4 -4l8 8m0 -8l-8 8"
            drawn.append(tag("path", class_="nonfinite", d=cross, stroke=ALARM, stroke_width=2, fill="none"))
    return joined(*drawn)


def evaluations(story: Story, x: Scale, y: Scale) -> Markup:
    """Evaluations that count as diamonds, as far apart as they can be seen."""
    drawn, curves = [], story.heard.curves
    for name in eval_names(story):
        last = -_EVAL_GAP
        for attempt in curves.attempts(name):
            for step, value in curves.points(name, attempt):
                if step <= story.counts_until(attempt) and abs(x(step) - last) >= _EVAL_GAP:
                    last = x(step)
                    drawn.append(diamond(last, y(value), colour_of(attempt)))
    return joined(*drawn)


def eval_names(story: Story) -> list[str]:
    """The evaluations there are, as curves."""
    return [name for name in story.heard.curves.names() if name.startswith(EVAL)]


def diamond(at: float, height: float, stroke: str) -> Markup:
    """An evaluation's mark."""
    shape = f"M{number(at)} {number(height - 5.5)}l5.5 5.5 -5.5 5.5 -5.5 -5.5z"
    return tag("path", class_="evaluation", d=shape, fill=PAPER, stroke=stroke, stroke_width=1.8)


def y_axis(values: Sequence[tuple[float, str]], scale: Scale, x: Scale, title: str) -> Markup:
    """Rules with their values at the left, and the panel's title over them."""
    drawn = [line(x.begin, scale(value), x.end, scale(value)) for value, _ in values]
    drawn += [words(x.begin - 8, scale(value) + 5, said, 14, fill=MUTED, text_anchor="end") for value, said in values]
    name = words(
        x.end - 8, scale.end + 19, title, 15, fill=INK, font_weight=600, text_anchor="end", paint_order="stroke",
        stroke=PAPER, stroke_width=4,
    )  # fmt: skip
    return joined(*drawn, name)
