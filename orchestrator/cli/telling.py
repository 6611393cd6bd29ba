"""What a person sees of a run while it goes: a live line and events on a terminal, plain lines elsewhere."""

import os
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from orchestrator.config import RunDir
from orchestrator.core.facts import Checkpoint, Decision, Eval, Exited, Fact, Launched, Order, Outcome, Step, Supervised
from orchestrator.core.rules import Rules
from orchestrator.core.state import Incident, State, attempt_of
from orchestrator.core.verdict import Past, recalled
from orchestrator.runtime.ending import why

EVERY = 0.25  # seconds between two refreshes of the live line
TAIL, LINES, WIDTH = 8192, 8, 200  # bytes, lines and columns of a failed job's output that are shown
PLAIN_EVERY = 5.0  # seconds between two plain progress lines
_COLOURS = {"info": "dim", "low": "cyan", "medium": "yellow", "high": "red", "critical": "bold red"}


class Telling:
    """Hears every fact and decision of a supervisor and tells what matters."""

    def __init__(self, rules: Rules, run: RunDir, past: Sequence[Past] = ()) -> None:
        self._rules, self._run, self._past = rules, run, past
        self._console = Console(highlight=False, soft_wrap=True)
        self._live = (
            Live(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None
        )
        self._next = 0.0
        self._told: dict[int, tuple[str, str]] = {}
        self._last: Step | None = None

    def __enter__(self) -> "Telling":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def hear(self, state: State, fact: Fact) -> None:
        """One fact or decision, and the state after it."""
        match fact:
            case Step():
                self._last = fact
                self._incidents(state)
                self._progress(state)
            case Decision():
                self._incidents(state)
                self._decision(fact)
            case Outcome() if fact.status == "failed":
                self._say(state, f"action {fact.action} failed: {fact.detail}", "red")
            case Launched() if fact.pid:
                origin = f"from {fact.checkpoint}" if fact.checkpoint else "from the beginning"
                self._say(state, f"attempt {fact.attempt} runs {origin} (process {fact.pid} on {fact.host})", "green")
            case Exited():
                self._say(state, f"attempt {fact.attempt} ended: {fact.why}", "dim")
                if fact.code != 0:
                    self._last_words(fact.attempt)
            case Checkpoint() if fact.state in ("failed", "corrupt"):
                self._say(state, f"checkpoint of step {fact.step}: {fact.state}, {fact.why}", "yellow")
            case Eval() if fact.value is None:
                self._say(state, f"evaluation {fact.name} is not finite", "yellow")
            case Supervised() if fact.epoch > 1:
                self._say(state, f"supervisor {fact.epoch} took the run up at attempt {state.attempt}", "green")
            case Order(verb="detach"):
                again = (
                    "press Ctrl-C again to stop the job" if self._console.is_terminal else "interrupt again to stop it"
                )
                self._say(state, f"leaving the job running; {again}", "yellow")
            case _:
                pass

    # --- lines ----------------------------------------------------------------------------------------

    def _say(self, state: State, text: str, style: str = "") -> None:
        stamp = time.strftime("%H:%M:%S")
        self._console.print(Text.assemble((f"{stamp} ", "dim"), (f"step {state.step:>6}  ", "dim"), (text, style)))

    def _last_words(self, attempt: int) -> None:
        """The end of a failed job's output."""
        try:
            with open(self._run.attempt(attempt).output, "rb") as file:
                file.seek(-min(TAIL, file.seek(0, os.SEEK_END)), os.SEEK_END)
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return
        for line in text.splitlines()[-LINES:]:
            shown = "".join(c if c.isprintable() else " " for c in line)
            self._console.print(Text(f"{' ' * 22}| {shown[:WIDTH]}", style="dim"))

    def _incidents(self, state: State) -> None:
        for incident in state.incidents[-3:]:
            now = (incident.cls, incident.stage)
            if self._told.get(incident.id) == now or incident.merged is not None:
                continue
            new = incident.id not in self._told
            self._told[incident.id] = now
            said = f"{_sentence(incident, new)} {recalled(incident, self._past)}".rstrip()
            self._say(state, said, _COLOURS[incident.severity])

    def _decision(self, decision: Decision) -> None:
        for action in decision.actions:
            if not action.incident and action.verb == "relaunch":
                continue
            marker = "->" if decision.mode == "act" else f"-> ({decision.mode})"
            text = f"{marker} {action.verb}: {action.why}" if action.why else f"{marker} {action.verb}"
            self._console.print(Text(f"{' ' * 22}{text}", style="bold"))

    def _progress(self, state: State) -> None:
        now = time.monotonic()
        if now < self._next or self._last is None:
            return
        self._next = now + (EVERY if self._live else PLAIN_EVERY)
        if self._live:
            self._live.update(Text(self._line(state, self._last)), refresh=True)
        else:
            self._say(state, self._line(state, self._last))

    def _line(self, state: State, step: Step) -> str:
        parts = [f"attempt {state.attempt}", f"step {step.step}" + (f"/{state.total}" if state.total else "")]
        if self._live and state.total:
            width = 24
            done = min(int(width * step.step / state.total), width)
            parts[1] += f" [{'#' * done}{'.' * (width - done)}]"
        if step.loss is not None:
            parts.append(f"loss {step.loss:.4f}")
        if step.lr is not None:
            parts.append(f"lr {step.lr:.3g}")
        if step.phase:
            parts.append(f"phase {step.phase}")
        parts += [f"{name} {value:.4f}" for name, value in _evals(state).items()]
        return "  ".join(parts)

    # --- the end --------------------------------------------------------------------------------------

    def detached(self) -> None:
        """The supervisor leaves, the job stays."""
        self._console.print(
            f"detached; the job goes on. To watch it again: the same command. To stop it:\n"
            f"  orchestrate ctl {escape(str(self._run.path))} stop"
        )

    def summary(self, state: State, seconds: float) -> None:
        """The table of incidents and what was done about them, steps lost, time, and where everything is."""
        shown = [incident for incident in state.incidents if incident.merged is None]
        if shown:
            table = Table(title="Incidents", title_justify="left", expand=False)
            for column in ("#", "class", "severity", "onset", "seen", "why", "done"):
                table.add_column(column, overflow="fold")
            for incident in shown[-20:]:
                done = [
                    f"{o.action.verb} ({o.status if o.applied else 'not applied'})"
                    for o in state.actions
                    if o.action.incident == incident.id
                ]
                table.add_row(
                    str(incident.id),
                    incident.cls,
                    incident.severity,
                    str(incident.onset),
                    str(incident.detected),
                    escape(incident.verdict or incident.reason),
                    ", ".join(done) or "-",
                )
            self._console.print(table)
        lost = sum(max(a.reached - _next_start(state, a.number), 0) for a in state.attempts[:-1])
        evals = "".join(f", {name} {value:.4f}" for name, value in _evals(state).items())
        self._console.print(
            f"{state.status}: {escape(why(state))}; step {state.step}, attempt {state.attempt}, "
            f"{lost} steps lost, {seconds:.0f} s{evals}"
        )
        self._console.print(f"run directory: {escape(str(self._run.path))}")


def _next_start(state: State, number: int) -> int:
    after = attempt_of(state, number + 1)
    return after.start_step if after else 1 << 62


def _evals(state: State) -> dict[str, float]:
    return {name: value for name, _, _, value in state.evals if value is not None}


def _sentence(incident: Incident, new: bool) -> str:
    what = f"incident {incident.id}: {incident.cls} ({incident.severity})"
    rank = f", rank {incident.rank}" if incident.rank is not None else ""
    why = incident.verdict or incident.reason
    if new:
        return f"{what} from step {incident.onset}{rank}: {why}"
    return f"{what}{rank} {incident.stage}: {why}"
