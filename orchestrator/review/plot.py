"""A curve as characters, eight levels a line, and the plan of a run as lines for a terminal."""

from collections.abc import Sequence
from typing import Any

BLOCKS = " ▁▂▃▄▅▆▇█"


def curve(points: Sequence[tuple[float, float]], width: int = 72, height: int = 8) -> list[str]:
    """Bars over the range of x, scaled to the highest value; each column shows the last point in it.

    >>> curve([(0, 0.0), (1, 1.0), (2, 2.0), (3, 4.0)], width=4, height=1)
    [' ▂▄█']
    """
    if not points:
        return []
    low, high = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1.0
    columns = [0.0] * width
    at = 0
    for column in range(width):
        edge = low + (high - low) * column / max(width - 1, 1)
        while at + 1 < len(points) and points[at + 1][0] <= edge:
            at += 1
        columns[column] = points[at][1] / top
    rows = []
    for row in range(height - 1, -1, -1):
        levels = [min(max(round((value * height - row) * 8), 0), 8) for value in columns]
        rows.append("".join(BLOCKS[level] for level in levels))
    return rows


def lines(plan: dict[str, Any], width: int = 72) -> list[str]:
    """The whole plan as text."""
    owner = "learning rate" if plan["lr_owner"] == "policy" else "share of the trainer's own learning rate"
    text = [f"{plan['steps']} steps, mode {plan['mode']}", "", *_plotted(owner, plan["lr"], plan["steps"], width)]
    if any(value is not None for _, value in plan["clip"]):
        text += ["", *_plotted("gradient clip", [p for p in plan["clip"] if p[1] is not None], plan["steps"], width, 3)]
    text += ["", *_phases(plan), *_saving(plan["checkpoints"]), "", "what is done:"]
    for reaction in plan["reactions"]:
        text += _reaction(reaction)
    return [*text, "", "limits:", *_limits(plan["limits"])]


def _plotted(title: str, points: list[Any], total: int, width: int, height: int = 8) -> list[str]:
    top, low = max(value for _, value in points), min(value for _, value in points)
    if top == low:
        return [f"{title}: {top:.3g} throughout"]
    rows = curve([(step, value) for step, value in points], width, height)
    scale = [f"{top:>9.3g}", *[" " * 9] * (height - 2), f"{0.0:>9.3g}"]
    drawn = [f"{mark} |{row}" for mark, row in zip(scale, rows, strict=True)]
    return [f"{title} (lowest {low:.3g}, highest {top:.3g})", *drawn, f"{'step':>9} 1{total:>{width}}"]


def _phases(plan: dict[str, Any]) -> list[str]:
    text = ["phases:"] if plan["phases"] else []
    for phase in plan["phases"]:
        rewarm = f", re-warm-up {phase['rewarm']} steps" if phase["rewarm"] else ""
        clip = f", clip {phase['clip']:g}" if phase["clip"] is not None else ""
        text.append(
            f"  {phase['name']}: steps {phase['from']} to {phase['until']}, rate {100 * phase['lr']:g}%{rewarm}{clip}, "
            f"grace {phase['grace']} steps"
        )
    return text


def _saving(saving: dict[str, Any]) -> list[str]:
    many = f", {saving['count']} over the run" if saving["count"] is not None else ""
    return [
        f"checkpoints: every {saving['every']}{many}; healthy {saving['healthy_after']} steps later, "
        f"rollback at least {saving['margin']} steps before an onset"
    ]


def _reaction(reaction: dict[str, Any]) -> list[str]:
    name = "persistent, minor" if reaction["class"] == "minor" else reaction["class"]
    most = f", at most {reaction['max']} without progress" if "max" in reaction else ""
    text = [f"  {name} ({reaction['severity']}{most})" + ("" if reaction["rungs"] else ": nothing, the run fails")]
    for number, (rung, lost) in enumerate(zip(reaction["rungs"], reaction["lost_steps"], strict=True), 1):
        cost = f"   at worst {lost} steps again" if lost else ""
        text.append(f"    {number}. {', '.join(rung)}{cost}")
    return text


def _limits(limits: dict[str, Any]) -> list[str]:
    quarantine = limits["quarantine"]
    expires = f", given back after {quarantine['expires']} steps" if quarantine["expires"] else ""
    return [
        f"  {limits['rollbacks']['max']} rollbacks in {limits['rollbacks']['per']} steps; "
        f"{limits['relaunches']['max']} relaunches, refilled {limits['relaunches']['refill']}",
        f"  rate never below {100 * limits['lr_floor']:g}% of its plan, clip never below {limits['clip_floor']:g}",
        f"  at most {100 * quarantine['max_share']:g}% of the data left out{expires}",
    ]
