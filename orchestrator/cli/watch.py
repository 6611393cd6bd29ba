"""orchestrate watch: follow a run live, from any terminal or node that sees its directory."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.config import RunDir
from orchestrator.core.facts import Fact, Step
from orchestrator.core.rules import Rules
from orchestrator.core.state import FINAL, State
from orchestrator.errors import RunDirError
from orchestrator.review.status import status_json
from orchestrator.store import journal
from orchestrator.store.recorded import Follower

EVERY = 0.5
WIDTH = 60  # columns of the loss curve
LEVELS = "▁▂▃▄▅▆▇█"
COLOURS = {"info": "dim", "low": "cyan", "medium": "yellow", "high": "red", "critical": "bold red"}


@click.command(epilog="Example:  orchestrate watch runs/pretrain")
@click.argument("run")
@click.option("--once", is_flag=True, help="Show the run as it stands and leave.")
def command(run: str, once: bool) -> int:
    """Follow a run: its step and rates, its loss, its incidents and what is done about them.

    Leave with Ctrl-C; the run goes on.
    """
    where = RunDir(Path(run))
    if not where.journal.is_file() or not journal.header_of(where.journal):
        raise RunDirError(f"{run}: there is no run here that has begun")
    console = Console(highlight=False)
    pictures = _pictures(where)
    if once or not console.is_terminal:
        console.print(next(pictures))
        return 0
    try:
        with Live(console=console, auto_refresh=False, screen=False) as live:
            for picture in pictures:
                live.update(picture, refresh=True)
                time.sleep(EVERY)
    except KeyboardInterrupt:
        pass
    return 0


def _pictures(where: RunDir) -> Iterator[RenderableType]:
    """The run now, again and again, until it is over."""
    follower, curve = Follower(where.journal), Curve()
    while True:
        for fact in follower.news():
            curve.add(fact)
        yield _picture(follower.now.rules, follower.now.state, where, curve)
        if follower.now.state.status in FINAL:
            return


class Curve:
    """The losses of the newest steps, as many as fit."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def add(self, fact: Fact) -> None:
        """One more step; the oldest go."""
        if isinstance(fact, Step) and fact.loss is not None:
            self._values = [*self._values[1 - WIDTH * 8 :], fact.loss]

    def line(self) -> str:
        """The curve as one line of bars, each the mean of some steps.

        >>> curve = Curve()
        >>> for step, loss in enumerate([4.0, 3.0, 2.0, 1.0]): curve.add(Step(1, step, loss=loss))
        >>> curve.line()
        '█▅▃▁'
        """
        size = max(math.ceil(len(self._values) / WIDTH), 1)
        groups = [self._values[i : i + size] for i in range(0, len(self._values), size)]
        means = [sum(group) / len(group) for group in groups]
        if not means:
            return ""
        low, high = min(means), max(means)
        scale = (len(LEVELS) - 1) / (high - low) if high > low else 0.0
        return "".join(LEVELS[int((mean - low) * scale)] for mean in means)


def _picture(rules: Rules, state: State, where: RunDir, curve: Curve) -> RenderableType:
    told = status_json(rules, state)
    total = f"/{told['total']}" if told["total"] else ""
    clip = "" if told["clip"] is None else f"  clip {told['clip']:.3g}"
    head = Text.assemble(
        (f"{told['state']}", "bold"), f"  attempt {told['attempt']}  step {told['step']}{total}"
        f"  lr x {told['lr_scale']:.3g}{clip}  {where.path}",
    )  # fmt: skip
    parts: list[RenderableType] = [head]
    if told["why"]:
        parts.append(Text(str(told["why"]), style="yellow"))
    parts.append(Text(f"loss {curve.line()}"))
    parts += [Text(f"{name} {value:.4f}") for name, value in told["eval"].items() if value is not None]
    for number, _ in state.proposed:
        parts.append(Text(f"awaits a yes: orchestrate ctl {where.path} approve {number}", style="bold yellow"))
    if told["incidents"]:
        parts.append(_incidents(told["incidents"][-10:]))
    healthy = [c["step"] for c in told["checkpoints"] if c["health"] == "healthy"]
    newest = f", newest healthy at step {healthy[-1]}" if healthy else ""
    parts.append(Text(f"checkpoints {len(told['checkpoints'])}, {len(healthy)} healthy{newest}", style="dim"))
    return Group(*parts)


def _incidents(incidents: list[dict[str, object]]) -> Table:
    table = Table(expand=False)
    for column in ("#", "class", "severity", "onset", "stage", "why", "done"):
        table.add_column(column, overflow="fold")
    for incident in incidents:
        actions: list[dict[str, str]] = incident["actions"]  # type: ignore[assignment]
        done = ", ".join(f"{action['verb']} ({action['outcome']})" for action in actions)
        words = [str(incident[key]) for key in ("id", "class", "severity", "onset_step", "stage", "reason")]
        table.add_row(*(Text(word) for word in (*words, done)), style=COLOURS[words[2]])
    return table
