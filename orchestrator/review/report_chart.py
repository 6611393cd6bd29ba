"""The picture of a run as one SVG: loss, learning rate, phases and checkpoints over the same steps."""

import textwrap
from typing import NamedTuple

from orchestrator.review import report_arrows, report_curves, report_marks, report_strip, report_words
from orchestrator.review.report_axes import (
    ALARM,
    FONT,
    INK,
    MUTED,
    PAPER,
    Scale,
    colour_of,
    extent,
    line,
    log_ticks,
    ticks,
    width_of,
    words,
)
from orchestrator.review.report_markup import Markup, joined, short, tag
from orchestrator.review.report_story import Story

WIDTH, MARGIN = 960.0, 20.0
LEFT, RIGHT = 74.0, WIDTH - 26.0
LOSS, RATE, STRIP = 300.0, 96.0, 22.0
_SIZE, _LEADING = 16.5, 23.0
_LEGEND_ATTEMPTS = 5
_SAD = ("held", "failed")
LOG_FROM = 3.0  # the loss is drawn on a logarithmic scale where its range is so many fold


class Rows(NamedTuple):
    """Where the parts of the picture lie, from above; the panels by their upper edges."""

    legend: float
    lanes: float
    loss: float
    rate: float
    phases: float
    checkpoints: float
    axis: float
    height: float


def chart(story: Story) -> Markup:
    """The whole picture, on a background of its own."""
    head = textwrap.wrap(report_words.headline(story), int((WIDTH - 2 * MARGIN) / (0.5 * _SIZE)))[:4]
    drawn = [_title(story), *(words(MARGIN, 62 + _LEADING * i, text, _SIZE) for i, text in enumerate(head))]
    below = 62 + _LEADING * len(head)
    if story.empty:
        return _sheet(story, below, joined(*drawn))
    x = Scale(0, max(story.heard.newest[1], story.state.frontier, 1), LEFT, RIGHT)
    placed = report_marks.labels(story, x)
    rows = _rows(story, below + 4, report_marks.height(placed))
    drawn += [_legend(story, rows.legend), _loss(story, x, rows), report_marks.badges(placed, rows.loss, rows.loss)]
    drawn += [_rate(story, x, rows), _strips(story, x, rows), _steps(x, rows)]
    return _sheet(story, rows.height, joined(*drawn))


def _rows(story: Story, top: float, lanes: float) -> Rows:
    loss = top + 16 + lanes
    rate = loss + LOSS + 14
    phases = rate + (RATE + 14 if story.heard.curves.attempts("lr") else 0)
    checkpoints = phases + (STRIP + 6 if report_strip.phases(story) else 0)
    axis = checkpoints + (STRIP + 2 if story.state.checkpoints else 0)
    return Rows(top, top + 12, loss, rate, phases, checkpoints, axis, axis + 62)


def _sheet(story: Story, height: float, content: Markup) -> Markup:
    """The drawing's outer element, with a description for those who do not see it."""
    back = tag("rect", x=0.5, y=0.5, width=WIDTH - 1, height=height - 1, rx=8, fill=PAPER, stroke="#d0d7de")
    title = tag("title", f"Run {story.name}: {report_words.headline(story)}")
    return tag(
        "svg", title, back, content, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH:g} {height:g}",
        width=WIDTH, height=height, role="img", font_family=FONT, style="max-width:100%;height:auto",
    )  # fmt: skip


def _title(story: Story) -> Markup:
    state = story.state
    many = f"{state.attempt} attempt" + ("" if state.attempt == 1 else "s")
    said = f"{state.status} · {many} · {state.step:,}" + (f" of {state.total:,} steps" if state.total else " steps")
    name = short(story.name, 50)
    return joined(
        words(MARGIN, 34, name, 21, font_weight=700),
        words(WIDTH - MARGIN, 34, said, 15, fill=ALARM if state.status in _SAD else MUTED, text_anchor="end"),
    )


def _legend(story: Story, baseline: float) -> Markup:
    """Attempts by colour, the faded part, evaluations."""
    left, drawn = MARGIN, []
    attempts = story.heard.curves.attempts("loss")
    entries = [(f"attempt {attempt}", colour_of(attempt), 1.0) for attempt in attempts[:_LEGEND_ATTEMPTS]]
    if len(attempts) > _LEGEND_ATTEMPTS:
        entries[-1] = (f"… to attempt {attempts[-1]}", colour_of(attempts[-1]), 1.0)
    if left_some := next((a for a in attempts if _abandoned(story, a)), None):
        entries.append(("left by a rollback or restart", colour_of(left_some), 0.45))
    for text, stroke, opacity in entries:
        drawn.append(line(left, baseline - 5, left + 24, baseline - 5, stroke, stroke_width=4, stroke_opacity=opacity))
        drawn.append(words(left + 31, baseline, text, 15))
        left += 48 + 0.95 * width_of(text, 15)
    for name in report_curves.eval_names(story)[:2]:
        drawn += [report_curves.diamond(left + 6, baseline - 5, INK), words(left + 18, baseline, short(name, 28), 15)]
        left += 40 + width_of(short(name, 28), 15)
    return joined(*drawn)


def _abandoned(story: Story, attempt: int) -> bool:
    points = story.heard.curves.points("loss", attempt)
    return bool(points) and points[-1][0] > story.counts_until(attempt)


def _loss(story: Story, x: Scale, rows: Rows) -> Markup:
    curves = story.heard.curves
    values = [value for name in ("loss", *report_curves.eval_names(story)) for value in curves.values(name)]
    low, high = extent(values)
    log = low > 0 and high / low >= LOG_FROM
    low, high = (low / 1.06, high * 1.12) if log else (low - 0.04 * (high - low), high + 0.1 * (high - low))
    y = Scale(low, high, rows.loss + LOSS, rows.loss, log)
    marks = log_ticks(low, high) if log else ticks(low, high)
    return tag(
        "g",
        report_marks.bands(story, x, rows.loss, rows.loss + LOSS),
        report_curves.y_axis([(value, f"{value:g}") for value in marks], y, x, "loss" + (" (log)" if log else "")),
        report_curves.curve(story, "loss", x, y, 2.2),
        report_curves.nonfinite(story, x, rows.loss),
        report_curves.evaluations(story, x, y),
        report_arrows.arrows(story, x, y),
        class_="loss",
    )


def _rate(story: Story, x: Scale, rows: Rows) -> Markup:
    values = list(story.heard.curves.values("lr"))
    if not values:
        return Markup()
    low, high = extent([0.0, *values])
    y = Scale(min(low, 0.0), high * 1.25, rows.rate + RATE, rows.rate)
    marks = [(value, f"{value:.2g}") for value in ticks(y.low, y.high, 4)]
    return tag(
        "g",
        report_marks.bands(story, x, rows.rate, rows.rate + RATE),
        report_curves.y_axis(marks, y, x, "learning rate, as read"),
        report_curves.curve(story, "lr", x, y),
        _cuts(story, x, rows),
        class_="rate",
    )


def _cuts(story: Story, x: Scale, rows: Rows) -> Markup:
    """A line where each cut of the rate that was made begins."""
    drawn = []
    for ordered in story.actions()[-report_marks.SHOWN :]:
        if ordered.action.verb != "lr" or not ordered.applied or not ordered.action.cuts:
            continue
        cut = ordered.action.cuts[-1]
        at, said = x(cut.step), f"× {cut.factor:g}"
        fits = at - 8 - width_of(said, 15) > LEFT
        text = words(
            at - 7 if fits else at + 7, rows.rate + RATE - 10, said, 15, fill=ALARM, font_weight=700,
            text_anchor="end" if fits else "start", paint_order="stroke", stroke=PAPER, stroke_width=4,
        )  # fmt: skip
        edge = line(at, rows.rate, at, rows.rate + RATE, ALARM, stroke_width=1.8, stroke_dasharray="5 3")
        drawn.append(tag("g", edge, text, class_="cut"))
    return joined(*drawn)


def _strips(story: Story, x: Scale, rows: Rows) -> Markup:
    drawn: list[Markup] = []
    if stretches := report_strip.phases(story):
        drawn.append(words(LEFT - 8, rows.phases + 16, "phase", 14, fill=MUTED, text_anchor="end"))
        drawn.append(report_strip.phase_strip(stretches, x, rows.phases, STRIP))
    if story.state.checkpoints:
        drawn.append(words(LEFT - 8, rows.checkpoints + 16, "saved", 14, fill=MUTED, text_anchor="end"))
        drawn.append(report_strip.checkpoint_strip(story, x, rows.checkpoints, STRIP))
    return joined(*drawn, report_strip.legend(story, LEFT, rows.axis + 48))


def _steps(x: Scale, rows: Rows) -> Markup:
    drawn: list[Markup] = []
    for step in ticks(x.low, x.high, 8):
        drawn.append(line(x(step), rows.axis, x(step), rows.axis + 5, MUTED))
        said, anchor = f"{step:,.0f}", "middle"
        if x(step) + width_of(said, 14) / 2 > WIDTH - 8:
            anchor = "end"
        drawn.append(words(x(step), rows.axis + 21, said, 14, fill=MUTED, text_anchor=anchor))
    return joined(*drawn, words(x.end, rows.axis + 48, "step", 14, fill=MUTED, text_anchor="end"))
