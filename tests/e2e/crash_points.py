"""kill -9 of the supervisor on the real job: `python -m tests.e2e.crash_points [FAULT] [STEPS]`.

The example trains on two ranks; its supervisor is killed right after each decision, launch, outcome and end that is
new in the journal, started again by the same command, and killed with the next one, to the end of the run. Then the
run must have ended as one does that nobody disturbed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Container
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator import cli
from orchestrator.config import RunDir
from orchestrator.core.facts import Decision, Exited, Fact, Launched, Outcome, Step
from orchestrator.store import journal
from tests.e2e import faults
from tests.runtime.scripted import news

KINDS = (Decision, Launched, Outcome, Exited)
ALL = range(1_000)


class Ended(NamedTuple):
    """A run after all its supervisors."""

    run: faults.Run
    deaths: int

    def facts(self) -> list[Fact]:
        return [record.fact for record in journal.read(RunDir(self.run.folder).journal).records]

    def decisions(self) -> list[tuple[Any, ...]]:
        """What was decided, without the moments at which; a job whose supervisor dies trains on into more incidents."""
        return [
            (d.mode, *((a.verb, a.to_step, a.shards, [cut[0] for cut in a.cuts]) for a in d.actions))
            for d in self.facts()
            if isinstance(d, Decision)
        ]

    def steps(self) -> dict[int, list[int]]:
        """The distinct steps of each attempt in their order."""
        told: dict[int, dict[int, None]] = {}
        for fact in self.facts():
            if isinstance(fact, Step):
                told.setdefault(fact.attempt, {})[fact.step] = None
        return {attempt: list(steps) for attempt, steps in told.items()}


def disturbed(folder: Path, points: Container[int], *words: str) -> Ended:
    """Run the example to its end; its supervisors die after those of the news whose number is among the points."""
    began, deaths, code = time.monotonic(), 0, -signal.SIGKILL
    command = ("run", "conf=pretrain.yaml", f"run.dir={folder}", *words)
    while code == -signal.SIGKILL:
        env = {**os.environ, "CRASH_POINTS": json.dumps([point for point in ALL if point in points])}
        done = subprocess.run(
            [sys.executable, "-m", "tests.e2e.crash_points", *command], cwd=faults.ROOT, env=env, timeout=600,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        code = done.returncode
        deaths += code == -signal.SIGKILL
    status = json.loads(faults.command("status", str(folder), "--json").stdout)
    return Ended(faults.Run(code, status, time.monotonic() - began, folder), deaths)


def _mortal(points: Container[int]) -> None:
    """Let this process be killed with one of these news, unless they stood in its journal at the start."""
    init, append = journal.Journal.__init__, journal.Journal.append
    known: set[Any] = set()

    def begun(self: journal.Journal, *given: Any) -> None:
        init(self, *given)
        known.update(news(record.fact) for record in self.recovered if isinstance(record.fact, KINDS))

    def appended(self: journal.Journal, record: journal.Record) -> None:
        append(self, record)
        if isinstance(record.fact, KINDS) and (told := news(record.fact)) not in known:
            if len(known) in points:
                os.kill(os.getpid(), signal.SIGKILL)
            known.add(told)

    journal.Journal.__init__ = begun  # type: ignore[method-assign, assignment]
    journal.Journal.append = appended  # type: ignore[method-assign]


def main(fault: str = "default", steps: str = "600") -> int:
    """Everywhere, and not at all."""
    words = (f"faults={fault}", f"steps={steps}")
    with tempfile.TemporaryDirectory() as place:
        calm = disturbed(Path(place) / "calm", (), *words)
        fire = disturbed(Path(place) / "fire", ALL, *words)
        decided = calm.decisions(), fire.decisions()
        whole = all(told == list(range(told[0], told[0] + len(told))) for told in fire.steps().values())
        ends = [(each.run.code, each.run.status["state"], each.run.status["step"]) for each in (calm, fire)]
        left = faults.left(fire.run.folder)
    same = decided[0] == decided[1]
    print(f"{fire.deaths} deaths; decisions {'alike' if same else 'DIFFER'}, {'no step' if whole else 'STEPS'} lost, "
          f"ends {ends}, left {left}; {calm.run.seconds:.0f} s and {fire.run.seconds:.0f} s")  # fmt: skip
    if not same:
        print(*decided, sep="\n")
    return 0 if same and whole and ends[0] == ends[1] and not left else 1


if __name__ == "__main__":
    if (POINTS := os.environ.pop("CRASH_POINTS", None)) is None:
        sys.exit(main(*sys.argv[1:]))
    _mortal(json.loads(POINTS))
    cli.main()
