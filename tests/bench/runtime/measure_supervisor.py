"""What a supervisor costs and how fast it answers: `python -m tests.bench.runtime.measure_supervisor [SECONDS]`.

Prints one JSON line: share of a core and memory of a supervisor while a scripted job makes 20 steps a second, and
beside it that of the least program which follows such a job (it parses what was appended, once a second): waking up
alone has its price, on a shared machine a high one;
seconds from the record that confirms a spike to the next attempt's start, with the part that was the trainer's
own shutdown; and seconds to recover a journal of a million steps.
"""

import json
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import psutil

from orchestrator.core.facts import Announced, Decision, Exited, Launched, Step, Supervised
from orchestrator.runtime.supervisor import SNAPSHOT
from orchestrator.store import journal, snapshot
from orchestrator.store.journal import At, Record
from orchestrator.store.recorded import Recorded, fold, rules_of
from tests.runtime.scripted import Run
from tests.simulation import healthy, noise

LEAST = """
import json, sys, time
with open(sys.argv[1]) as file:
    while True:
        for line in file.readlines():
            json.loads(line)
        time.sleep(1.0)
"""


def cost(seconds: float) -> dict[str, float]:
    """Share of one core and resident megabytes of a supervisor at 20 steps a second, its start left out."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder)).lay_out(total=1_000_000, rate=20, every=1000)
        child = run.start()
        run.wait_for(lambda: len(run.steps(1)) >= 20)
        least = subprocess.Popen([sys.executable, "-c", LEAST, str(run.dir.attempt(1).path / "telemetry.jsonl")])
        pids = {"core_share": child.pid, "keeper_core_share": _keeper(run), "least_core_share": least.pid}
        followed = {name: psutil.Process(pid) for name, pid in pids.items()}
        time.sleep(2.0)  # the least program has to start too
        before, began = {name: _used(process) for name, process in followed.items()}, time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        found = {name: (_used(process) - before[name]) / passed for name, process in followed.items()}
        memory = followed["core_share"].memory_info().rss
        least.kill()
        least.wait()
        child.terminate()
        child.communicate()
    return {**found, "memory_mb": memory / (1 << 20), "steps_a_second": 20}


def _keeper(run: Run) -> int:
    return int(json.loads(run.dir.attempt(1).process.read_text())["keeper"]["pid"])


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def answer(times: int = 5) -> dict[str, float]:
    """Medians over some runs with a bad shard."""
    whole, shutdown = [], []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(Path(folder)).lay_out({"at": 120, "do": "level"}, rate=100)
            run.supervise()
            facts = run.facts()
            decided = next(f.time for f in facts if isinstance(f, Decision) and f.incident)
            ended = next(f.time for f in facts if isinstance(f, Exited))
            again = next(f.time for f in facts if isinstance(f, Launched) and f.attempt == 2)
            whole.append(again - decided)
            shutdown.append(ended - decided)
    middle = times // 2
    return {"spike_to_relaunch_s": sorted(whole)[middle], "of_it_shutdown_s": sorted(shutdown)[middle]}


def recovery(steps: int = 1_000_000) -> dict[str, float]:
    """Processor seconds from a journal on disk to the state, with the snapshot that a supervisor had left, and without.

    The snapshot is as old as it can be: as many records behind as there are between two of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder)).lay_out()
        run.supervise()
        path = Path(folder) / "long.jsonl"
        header = _long(run, path, steps)
        began = time.process_time()
        whole = fold(header, journal.stream(path)).state
        without = time.process_time() - began
        kept = [record for _, record in zip(range(steps - SNAPSHOT), journal.stream(path), strict=False)]
        with open(path, "rb") as file:
            before = b"".join(line for _, line in zip(range(len(kept) + 1), file, strict=False))
        mark = journal.Mark(len(kept) + 1, len(before), zlib.crc32(before))
        made = snapshot.Snapshot(mark, header["digest"], header["policy"], {}, fold(header, kept).state)
        del kept, before
        began = time.process_time()
        snapshot.save(run.dir.snapshot, made)
        saving = time.process_time() - began
        began = time.process_time()
        known = snapshot.load(run.dir.snapshot)
        contents = journal.read(path, known.mark)
        start = Recorded(rules_of(header), known.digest, known.state)
        assert fold(header, contents.records, start).state == whole
        return {"recovery_s": time.process_time() - began, "without_snapshot_s": without, "snapshot_save_s": saving,
                "snapshot_mb": run.dir.snapshot.stat().st_size / (1 << 20), "steps": steps}  # fmt: skip


def _long(run: Run, path: Path, steps: int) -> dict[str, str]:
    """A journal of many steps; its header."""
    records = list(journal.stream(run.dir.journal))
    header = journal.header_of(run.dir.journal)
    head = [r for r in records if isinstance(r.fact, Supervised | Decision | Launched | Announced)]
    sample = next(r.fact for r in records if isinstance(r.fact, Step))
    with open(path, "wb") as file:
        file.write(journal.line_of(0, "header", header))
        for number, record in enumerate((*head, *_steps(sample, steps)), 1):
            tag = type(record.fact).__name__.lower()
            file.write(journal.line_of(number, tag, journal.to_json(record.fact), record.at))
    return header


def _steps(sample, count: int):
    for step in range(1, count + 1):
        yield Record(
            sample._replace(step=step, time=sample.time + step, loss=healthy(step), grad_norm=1.0 + noise(step, 0.1),
                            shards=(f"web/{step // 1000}",)),
            At("telemetry.jsonl", step * 150),
        )  # fmt: skip


if __name__ == "__main__":
    SECONDS = float(sys.argv[1]) if sys.argv[1:] else 60.0
    print(json.dumps({**cost(SECONDS), **answer(), **recovery()}))
