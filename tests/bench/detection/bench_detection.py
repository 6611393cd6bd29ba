"""Our detection beside other people's, on the same labelled runs: one row each.

    python tests/bench/detection/bench_detection.py --seeds 1000:1004 --markdown

Ours reads the runs as files and names class, onset, rank and actions; a peer sees the bare values and
fires or does not. Peers run with their defaults; neighbouring alarms of a peer count as one.
"""

import argparse
import fnmatch
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import generator
import ours
import peers
import score
from labels import CLASSES, Run

DEFAULT_POLICY = Path(__file__).resolve().parents[3] / "policies" / "pretrain.yaml"
STEPS = ("delay", "+3 % delay", "+0.75 % delay", "at switches", "acts on isolated", "healthy steps")
RATES = ("false incidents", "false actions", "us/step")
BATCH = 48


class Row(NamedTuple):
    """One detector over the whole suite; `note` says why there is nothing."""

    name: str
    numbers: dict[str, float | None]
    verdicts: list[score.Verdict]
    note: str = ""


def _batches(runs: Iterable[Run]) -> Iterator[list[Run]]:
    batch: list[Run] = []
    for run in runs:
        batch.append(run)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def our_row(policy: Path, runs: Iterable[Run], command: bool) -> Row:
    """Replay of every run; its cost is the whole of it, parsing and incidents included."""
    name = f"orchestrate, {policy.stem}"
    try:
        replay = ours.by_command if command else ours.in_process()
    except ModuleNotFoundError as error:
        return Row(name, {}, [], f"not there: {error}")
    verdicts, seconds, records = [], 0.0, 0
    for batch in _batches(runs):
        for run, recording in zip(batch, ours.recordings(replay, policy, batch), strict=True):
            verdicts.append(score.judge(run, recording))
            seconds, records = seconds + recording["seconds"], records + recording["records"]
    return Row(name, score.summary(verdicts) | {"us/step": 1e6 * seconds / max(records, 1)}, verdicts)


def peer_row(peer: peers.Peer, runs: Iterable[Run]) -> Row:
    """One peer over every run, a fresh detector for each; its cost is its own calls."""
    verdicts, seconds, records = [], 0.0, 0
    for run in runs:
        try:
            watch = peer.start()
        except ModuleNotFoundError as error:
            return Row(peer.name, {}, [], f"not installed: {error}")
        steps, seen = peers.points(run)
        begin = time.perf_counter()
        alarms = [point.number for point in seen if watch(point)]
        seconds, records = seconds + time.perf_counter() - begin, records + len(seen)
        verdicts.append(score.judge_alarms(run, steps, alarms))
    return Row(peer.name, score.summary(verdicts) | {"us/step": 1e6 * seconds / max(records, 1)}, verdicts)


def _cell(column: str, value: float | None) -> str:
    if value is None:
        return "–"
    if column in STEPS:
        return f"{value:,.0f}"
    if column in RATES:
        return f"{value:.2f}"
    return f"{100 * value:.1f} %"


def table(rows: Sequence[Row], markdown: bool) -> str:
    """The rows as a table; detectors without a result stand below it with the reason."""
    full = [row for row in rows if row.numbers]
    columns = list(full[0].numbers) if full else []
    head = ["", *(f"{c} found" if c in CLASSES else c for c in columns)]
    cells = [head, *([row.name, *(_cell(c, row.numbers[c]) for c in columns)] for row in full)]
    if not markdown:  # the other way round: a terminal is higher than wide
        cells = [list(line) for line in zip(*cells, strict=True)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]
    lines = [" | ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)) for line in cells]
    if markdown:
        lines = [f"| {line} |" for line in lines]
        lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines + [f"{row.name}: {row.note}" for row in rows if row.note])


def failures(row: Row) -> str:
    """What a row got wrong, a line a run."""
    out = []
    for v in row.verdicts:
        missed = sum(f.delay is None for f in v.found)
        said = [*([f"missed {missed} of {len(v.found)}"] if missed else []), *v.late, *v.why]
        if said:
            out.append(f"{v.name} {v.seed}: {'; '.join(said)}")
    return "\n".join(out)


def speed(policy: Path, records: int) -> str:
    """Records a second of one long healthy recording."""
    run = generator.long_run(records)
    (recording,) = ours.recordings(ours.in_process(), policy, [run])
    return f"{recording['records'] / recording['seconds']:,.0f} records/s over {records:,} records"


def _seeds(text: str) -> range:
    first, _, last = text.rpartition(":")
    return range(int(first or 0), int(last))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=_seeds, default=range(1000, 1004), help="N, or FIRST:END (default 1000:1004)")
    parser.add_argument("--kinds", default="*", help="a pattern of kinds, such as 'jump_*'")
    parser.add_argument("--ours", action="store_true", help="only our row")
    parser.add_argument("--peers", action="store_true", help="only the peers' rows")
    parser.add_argument("--peer", default="*", help="a pattern of peers' names")
    parser.add_argument("--policy", type=Path, default=DEFAULT_POLICY)
    parser.add_argument("--command", action="store_true", help="replay through the command line, not in this process")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--failures", action="store_true", help="name the runs that a detector read wrongly")
    parser.add_argument("--speed", type=int, metavar="RECORDS", help="only measure the speed of our replay")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.speed:
        print(speed(options.policy, options.speed))
        return 0
    names = fnmatch.filter(generator.KINDS, options.kinds)
    rows = []
    if not options.peers:
        rows.append(our_row(options.policy, generator.suite(options.seeds, names), options.command))
    if not options.ours:
        chosen = (peer for peer in peers.PEERS if fnmatch.fnmatch(peer.name, options.peer))
        rows += [peer_row(peer, generator.suite(options.seeds, names)) for peer in chosen]
    print(table(rows, options.markdown))
    if options.failures:
        print("\n".join(f"{row.name}\n{failures(row)}" for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
