"""The strips under the curves: the data phases, and checkpoints by their health."""

from itertools import pairwise
from typing import NamedTuple

from orchestrator.core.health import Health
from orchestrator.core.schedule import phase_at, switches
from orchestrator.review.report_axes import ALARM, BAND, INK, MUTED, PAPER, Scale, line, width_of, words
from orchestrator.review.report_markup import Look, Markup, joined, number, short, tag
from orchestrator.review.report_story import Story

GAP = 7.0  # pixels between two marks at least; of those nearer to each other the worst is drawn
_ORDER: tuple[Health, ...] = ("bad", "suspect", "missing", "candidate", "provisional", "healthy")
_FILLS = {"healthy": "#008060", "provisional": PAPER, "suspect": "#e69f00", "bad": ALARM, "candidate": "#b8bfc6",
          "missing": PAPER}  # fmt: skip
_EDGES = {"healthy": "#008060", "provisional": "#008060", "suspect": "#8a6100", "bad": ALARM, "candidate": MUTED,
          "missing": MUTED}  # fmt: skip


class Stretch(NamedTuple):
    """Steps `begin` to `end` in one phase."""

    begin: int
    end: int
    name: str


def phases(story: Story) -> list[Stretch]:
    """The phases of the present branch: as the trainer told them, else as the policy has them."""
    return _told(story) or _promised(story)


def _told(story: Story) -> list[Stretch]:
    """Every change counts until the next one on the branch; what a rollback left does not count."""
    starts = {attempt.number: attempt.start_step for attempt in story.state.attempts}
    found: list[Stretch] = []
    for attempt, step, name in story.heard.phases:
        until = min(story.counts_until(attempt), story.state.step)
        if step > until:
            continue
        begin = max(starts.get(attempt, 0), step - 1)
        found = [stretch._replace(end=min(stretch.end, begin)) for stretch in found if stretch.begin < begin]
        found.append(Stretch(begin, until, name))
    return _merged(found)


def _promised(story: Story) -> list[Stretch]:
    policy, last = story.rules.policy.phases, story.state.frontier
    edges = [0, *(end for end in switches(policy) if end < last), last]
    named = [(begin, end, phase_at(policy, begin + 1)) for begin, end in pairwise(edges)]
    return [Stretch(begin, end, at.name) for begin, end, at in named if at is not None]


def _merged(stretches: list[Stretch]) -> list[Stretch]:
    found: list[Stretch] = []
    for stretch in stretches:
        if found and found[-1].name == stretch.name:
            found[-1] = found[-1]._replace(end=stretch.end)
        else:
            found.append(stretch)
    return found


def phase_strip(stretches: list[Stretch], x: Scale, top: float, height: float) -> Markup:
    """Blocks with the names that fit."""
    drawn = []
    for index, (begin, end, name) in enumerate(stretches):
        wide = x(end) - x(begin)
        fill = "#dde6ef" if index % 2 == 0 else "#ece5d6"
        drawn.append(tag("rect", class_="phase", x=x(begin), y=top, width=wide, height=height, fill=fill))
        said = short(name, max(int(wide / 8.5), 3))
        if width_of(said, 14) < wide - 6:
            middle = (x(begin) + x(end)) / 2
            drawn.append(words(middle, top + height - 6, said, 14, text_anchor="middle"))
    return joined(*drawn)


def mark(health: Health, at: float, middle: float) -> Markup:
    """A checkpoint's mark: its shape tells its health as its colour does."""
    look: Look = {"class_": f"checkpoint {health}", "fill": _FILLS[health], "stroke": _EDGES[health]}
    look["stroke_width"] = 3.0 if health == "bad" else 1.8
    if health == "suspect":
        return tag("path", d=f"M{number(at)} {number(middle - 6)}l6 10.5h-12z", **look)
    if health == "bad":
        return tag("path", d=f"M{number(at)} {number(middle)}m-4.5 -4.5l9 9m0 -9l-9 9", **look)
    dashed = "2 2" if health == "missing" else None
    return tag("circle", cx=at, cy=middle, r=3.0 if health == "candidate" else 4.8, stroke_dasharray=dashed, **look)


def checkpoint_strip(story: Story, x: Scale, top: float, height: float) -> Markup:
    """Every checkpoint at its step."""
    columns: dict[int, tuple[int, Health]] = {}
    for step, _, _, verdict in story.checkpoints():
        key = int(x(step) / GAP)
        known = columns.get(key)
        if known is None or _ORDER.index(verdict.health) < _ORDER.index(known[1]):
            columns[key] = (step, verdict.health)
    middle = top + height / 2
    marks = [mark(health, x(step), middle) for step, health in columns.values()]
    rail = line(x.begin, middle, x.end, middle, BAND, stroke_width=height)
    return joined(rail, line(x.begin, middle, x.end, middle, "#c9d1d9", stroke_width=1), *marks)


def legend(story: Story, left: float, baseline: float) -> Markup:
    """What the marks mean, of those that there are."""
    present = {verdict.health for _, _, _, verdict in story.checkpoints()}
    drawn: list[Markup] = []
    if present:
        drawn.append(words(left, baseline, "checkpoints:", 14, fill=MUTED))
        left += width_of("checkpoints:", 14) + 14
    for health in reversed(_ORDER):
        if health in present:
            drawn += [mark(health, left, baseline - 5), words(left + 10, baseline, health, 14, fill=INK)]
            left += 32 + width_of(health, 14)
    return joined(*drawn)
