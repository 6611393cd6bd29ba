"""Random kills of everything: `python -m tests.e2e.soak [KILLS] [SEED]`, 200 kills by default.

A scripted run that also has a bad shard is supervised by the ordinary command, and at random moments one of its
supervisor, its keeper, its launcher (a shell) and its trainer is killed by SIGKILL, or told SIGTERM. Whoever
started the command starts it again. At its end: the run completed, its ledger of failures is exactly what was
counted from its journal, no process is left, every step of every attempt was journaled without a gap, and no
attempt began earlier than one checkpoint distance before the end of the one before.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from orchestrator.core.facts import Checkpoint, Decision, Exited, Launched
from orchestrator.core.state import State
from orchestrator.store import journal
from orchestrator.store.recorded import fold
from orchestrator.wire import read_json
from tests.runtime.scripted import POLICY, TRAINER, Run

OVER = (0, 1)  # 1: completed too, with an incident not closed yet
EVERY = 20  # steps between two checkpoints
FAILURES = "failures: {crash: {max: 100000, respond: [relaunch]}, host: {max: 100000, respond: [relaunch]}}\n"
CEILING = "limits: {quarantine: {max_share: 10%}, relaunches: {max: 100000, refill: never}}\n"
WHOM = ("supervisor", "notice", *("keeper", "shell", "trainer") * 3)


def soak(folder: Path, kills: int, seed: int) -> State:
    """The state at the end; AssertionError where a promise was broken."""
    chance, counted = random.Random(seed), Counter[str]()
    policy = POLICY.replace("limits: {quarantine: {max_share: 10%}}\n", CEILING) + FAILURES
    words = ["sh", "-c", f'"{sys.executable}" -S "{TRAINER}" "{folder / "script.json"}"; exit $?']
    run = Run(folder).lay_out({"at": 150, "do": "level"}, policy=policy, command=words, finish=str(folder / "finish"),
                              total=1_000_000, rate=200, every=EVERY)  # fmt: skip
    command = run.start()
    while counted.total() < kills:
        time.sleep(chance.uniform(0.05, 1.2))
        command = _kept_up(run, command)
        if hit := _hit(run, command, chance.choice(WHOM)):
            counted[hit] += 1
    (folder / "finish").touch()
    deadline = time.monotonic() + 120
    while command.poll() not in OVER:
        assert time.monotonic() < deadline, "the run did not complete"
        command = _kept_up(run, command)
        time.sleep(0.1)
    command.communicate()
    print(f"seed {seed}: {dict(counted)}", flush=True)
    assert run.processes() == []
    state = fold(journal.header_of(run.dir.journal), journal.stream(run.dir.journal)).state
    _check(run, state)
    return state


def _kept_up(run: Run, command: "subprocess.Popen[str]") -> "subprocess.Popen[str]":
    """The command, started again where it was killed or asked to be requeued."""
    if command.poll() is None or command.returncode in OVER:
        return command
    said, _ = command.communicate()
    # A notice that comes before the command has read its own code ends it as any other program.
    assert command.returncode in (75, -signal.SIGKILL, -signal.SIGTERM), f"{command.returncode}: {said}"
    return run.start()


def _hit(run: Run, command: "subprocess.Popen[str]", whom: str) -> str:
    """Kill one process of the run; "" when there was none.

    Of a job only after it has made some steps: one that dies twice in the same place is held, and rightly.
    """
    if whom in ("supervisor", "notice"):
        command.send_signal(signal.SIGKILL if whom == "supervisor" else signal.SIGTERM)
        return whom
    folders = sorted((run.dir.path / "attempts").glob("*"))
    process = read_json(folders[-1] / "process.json") if folders else None
    telemetry = folders[-1] / "telemetry.jsonl" if folders else None
    if (
        process is None
        or telemetry is None
        or not telemetry.exists()
        or telemetry.read_bytes().count(b"\n") < EVERY + 5
    ):
        return ""
    try:
        shell = psutil.Process(process["pid"])
        keeper = psutil.Process(process["keeper"]["pid"]) if whom == "keeper" else None
        target = keeper or (shell if whom == "shell" else shell.children()[0])
        if target.status() == psutil.STATUS_ZOMBIE:
            return ""
        target.kill()
    except (psutil.Error, IndexError):
        return ""
    return whom


def _check(run: Run, state: State) -> None:
    facts = run.facts()
    assert state.status == "completed", state.why
    launches = {f.attempt: f.start_step for f in facts if isinstance(f, Launched)}
    assert sorted(launches) == list(range(1, len(launches) + 1)), "an attempt was left out"
    assert {f.attempt for f in facts if isinstance(f, Exited)} == set(launches), "an attempt has no end"
    saved = {f.step for f in facts if isinstance(f, Checkpoint) and f.state == "saved"} | {0}
    for attempt, start in launches.items():
        steps = run.steps(attempt)
        assert steps == list(range(start + 1, start + 1 + len(steps))), f"attempt {attempt} has gaps"
        assert start in saved
    for attempt in state.attempts[1:-1]:
        after = launches[attempt.number + 1]
        rolled_back = any(o.action.verb == "rollback" and o.action.attempt == attempt.number for o in state.actions)
        assert rolled_back or attempt.reached - after < 2 * EVERY, f"attempt {attempt.number} lost too much"
    treated = [d for d in facts if isinstance(d, Decision) and d.incident and d.mode == "act"]
    spent = sum(1 for d in treated for action in d.actions if action.verb == "relaunch")
    assert state.counts.relaunches == spent, "the ledger of relaunches is not what was decided"


if __name__ == "__main__":
    COUNT, SEED = (int(word) for word in (*sys.argv[1:], *("200", "0")[len(sys.argv) - 1 :]))
    BEGAN = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        END = soak(Path(place), COUNT, SEED)
    print(f"{COUNT} kills, {END.attempt} attempts, {END.epoch} supervisors, {time.monotonic() - BEGAN:.0f} s: all held")
