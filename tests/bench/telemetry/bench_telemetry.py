"""How fast every format reads, and what 40,000 lines of garbage do to it.

    python tests/bench/telemetry/bench_telemetry.py [FORMAT...] [--records 100000] [--garbage 40000]

Prints one line a format: lines per CPU second of a clean text (parsing, facts built), and of the garbage how many
lines were counted and whether one was read. Exits 1 when garbage was read or a record was lost.
"""

import argparse
import os
import random
import string
import sys
from collections.abc import Iterable
from pathlib import Path

from orchestrator import registry
from orchestrator.core.facts import Step
from orchestrator.telemetry import Parser
from orchestrator.telemetry._text import fed

sys.path.append(str(Path(__file__).parents[2] / "telemetry"))
from log_samples import PATTERN

WIRE = (
    '{{"type":"step","step":{s},"time":{s}.5,"loss":{v:.4f},"grad_norm":{v:.4f},"lr":0.0003,"nonfinite":0,"clip":1.0,'
    '"tokens":524288,"tokens_seen":6291456,"shards":["web-00012"]}}'
)
HEADS = {"csv": "step,loss,grad_norm,lr"}
LINES: dict[str, str] = {
    "wire": WIRE,
    "csv": "{s},{v:.4f},{v:.4f},0.0003",
    "jsonl": '{{"step": {s}, "train/loss": {v:.4f}, "train/grad_norm": {v:.4f}, "train/learning_rate": 0.0003}}',
    "hf_trainer": "{{'loss': {v:.4f}, 'grad_norm': {v:.8f}, 'learning_rate': 3e-05, 'epoch': {e:.2f}}}",
    "megatron": (
        " [2026-04-05 01:02:03.456789] iteration {s:8d}/ 9000000 | consumed samples: {s:12d} | elapsed time per"
        " iteration (ms): 812.4 | throughput per GPU (TFLOP/s/GPU): 402.1 | learning rate: 2.978000E-04 |"
        " global batch size:   256 |"
        " lm loss: {v:.6E} | loss scale: 1.0 | grad norm: {v:.3f} | num zeros: 0 | params norm: 1204.551 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    ),
    "torchtitan": (
        "[rank0]:[titan] 2026-04-05 01:02:03,456 - root - INFO - \x1b[31mstep: {s}  \x1b[32mloss:  {v:.5f}  "
        "\x1b[38;2;180;60;0mgrad_norm:  {v:.4f}  \x1b[38;2;54;234;195mmemory: 41.20GiB(51.90%)  \x1b[34mtps: 7,412  "
        "\x1b[35mmfu: 40.66%\x1b[39m"
    ),
    "deepspeed": "steps: {s} loss: {v:.4f} iter time (s): 0.812 samples/sec: 315.271",
    "nanogpt": "iter {s}: loss {v:.4f}, time 812.41ms, mfu 40.66%",
    "nanogpt_speedrun": "step:{s}/9000000 train_loss:{v:.4f} train_time:132811ms step_avg:110.23ms",
    "llmc": "s:{s} trl:{v:.4f} lr:0.000598 norm:{v:.2f}",
    "litgpt": (
        "Epoch 1 | iter {s} step {s} | loss train: {v:.3f}, val: n/a | iter time: 812.41 ms (step)"
        " remaining time: 3:04:11"
    ),
    "nanotron": (
        "04/05 01:02:03 [INFO|DP=0|PP=0|TP=0]: iteration: {s} / 9000000 | consumed_tokens: 2.54B |"
        " time_per_iteration_ms: 812 | tokens_per_sec: 2.58M | tokens_per_sec_per_gpu: 40.3K |"
        " global_batch_size: 2.1M | lm_loss: {v:.2f} | lr: 0.000298 | model_tflops_per_gpu: 402 | eta: 11:00:12"
    ),
    "olmo": "[step={s}/9000000]\n    train/CE loss={v:.3f}\n    optim/total grad norm={v:.4f}",
    "levanter": '{{"tracker": "json_logger", "event": "log", "step": {s}, "metrics": {{"train/loss": {v:.4f}}}}}',
    "composer": "[batch={s}/9000000]:\n\t Train time/batch: {t}\n\t Train loss/train/total: {v:.4f}",
    "lightning": "Epoch 0:  60%|██████    | {s}/9000000 [20:04<13:23,  1.00it/s, v_num=4, train_loss={v:.3f}]",
    "nemo": (
        "Training epoch 0, iteration {s}/9000000 | lr: 0.0002978 | global_batch_size: 256 | global_step: {s} |"
        " reduced_train_loss: {v:.3f} | train_step_timing in s: 0.8124"
    ),
    "llamafactory": (
        '{{"current_steps": {s}, "total_steps": 9000000, "loss": {v:.4f}, "learning_rate": 4.2e-05, "epoch": 0.12,'
        ' "percentage": 12.0, "elapsed_time": "0:20:04", "remaining_time": "1 day, 2:27:11"}}'
    ),
    "mmcv": (
        "2026-04-05 01:02:03,456 - mmdet - INFO - Iter [{s}/9000000]\tlr: 4.200e-04, eta: 1 day, 2:27:11, time: 1.950,"
        " memory: 9120, loss_cls: 0.5000, loss: {v:.4f}, grad_norm: {v:.4f}"
    ),
    "returnn": (
        "[default3]:ep 7 train, step {s}, ce {v:.3f}, ctc_4 {v:.3f}, grad_norm:p2 {v:.3f}, mem_usage:cuda:3 40.1GB,"
        " 0.700 sec/step, complete 51.20%"
    ),
    "regex": "[t={s}] L={v:.4f} g={v:.4f};",
}


TOGETHER = 5000  # lines of a chunk that is read from a file


def parser_of(form: str) -> Parser:
    module = registry.load("telemetry", form)
    return module.parser(1, pattern=PATTERN) if form == "regex" else module.parser(1)


def text(form: str, count: int) -> list[bytes]:
    draw = random.Random(form)
    line = LINES[form]
    body = (line.format(s=s, t=s - 1, v=2 + draw.random(), e=s / 1000) for s in range(1, count + 1))
    head = [HEADS[form]] if form in HEADS else []
    return "\n".join([*head, *body]).encode().split(b"\n")


def garbage(form: str, count: int) -> Iterable[bytes]:
    draw = random.Random(form)
    alphabet = (string.printable.replace("\n", "").replace("\r", "")).encode() + bytes(range(128, 256))
    words = b"step loss nan inf iteration | : = [ ] { } ' \" , / 1e9 12 0.5 -7 lr grad_norm rank0 Epoch %".split()
    for _ in range(count):
        if draw.random() < 0.5:
            yield bytes(draw.choices(alphabet, k=draw.randrange(1, 200)))
        else:
            yield b" ".join(draw.choices(words, k=draw.randrange(1, 30)))


def timed(parser: Parser, lines: list[bytes]) -> float:
    """CPU seconds, those of a child included: a declared pattern is searched in one."""
    start = sum(os.times()[:4])
    for begin in range(0, len(lines), TOGETHER):
        fed(parser, lines[begin : begin + TOGETHER])
    parser.close()
    return sum(os.times()[:4]) - start


def measure(form: str, records: int, lines_of_garbage: int) -> bool:
    count = records
    lines = text(form, count)
    best = min(timed(parser_of(form), lines) for _ in range(3))
    parser = parser_of(form)
    facts = fed(parser, lines) + list(parser.close())
    whole = sum(isinstance(fact, Step) and fact.loss is not None for fact in facts) == count and not parser.skipped
    parser = parser_of(form)
    read = [fact for line in garbage(form, lines_of_garbage) for fact in parser.feed(line)] + list(parser.close())
    print(
        f"{form:17} {len(lines) / best:>9,.0f} lines/s  {count / best:>9,.0f} records/s   garbage: {parser.skipped:,}"
        f" of {lines_of_garbage:,} counted, {len(read)} read{'' if whole else '   RECORDS LOST'}"
    )
    return whole and not read


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("formats", nargs="*", default=list(LINES))
    options.add_argument("--records", type=int, default=100_000)
    options.add_argument("--garbage", type=int, default=40_000)
    given = options.parse_args()
    good = [measure(form, given.records, given.garbage) for form in given.formats]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
