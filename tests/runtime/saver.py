"""A trainer whose every second is a save: `python -S saver.py SCRIPT.json`; standard library only.

Its checkpoints have the files of a real one (from a template), are written piece by piece, and say whether they
are poisoned: once a bad shard was read everything after it is. It checks what it is told to load, and writes
what it finds wrong to `violations.txt`.
"""

import json
import math
import os
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import unquote

RUN = Path(os.environ["ORCHESTRATE_RUN_DIR"])
ROOT = Path(os.environ["ORCHESTRATE_CHECKPOINTS"])
ATTEMPT = int(os.environ["ORCHESTRATE_ATTEMPT"])
FOLDER = RUN / "attempts" / f"{ATTEMPT:04d}"
SCRIPT = json.loads(Path(sys.argv[1]).read_text())
LEFT_OUT = {unquote(line) for line in Path(os.environ["ORCHESTRATE_QUARANTINE"]).read_text().split()}


def wrong(path: Path) -> str:
    """What a checkpoint has that no target may have; "" when it is complete and clean."""
    try:
        marker = json.loads((path / "orchestrate.json").read_text())
        state = json.loads((path / "state.json").read_text())
        sizes = {name: (path / name).stat().st_size for name in marker["files"]}
    except (OSError, ValueError) as error:
        return f"{path.name}: {error!r}"
    if sizes != marker["files"]:
        return f"{path.name}: files of the wrong size"
    return f"{path.name}: poisoned" if state["poisoned"] else ""


class Saver:
    def __init__(self) -> None:
        resume = os.environ["ORCHESTRATE_RESUME"]
        self.step, self.poisoned = 0, False
        if resume:
            if found := wrong(Path(resume)):
                with open(RUN / "violations.txt", "a") as file:
                    file.write(f"attempt {ATTEMPT} was told to load {found}\n")
                sys.exit(9)
            self.step = json.loads((Path(resume) / "state.json").read_text())["step"]
        self.out = open(FOLDER / "telemetry.jsonl", "a", buffering=1)  # noqa: SIM115
        self.mark, self.directive = 0, {}

    def say(self, kind: str, **fields: object) -> None:
        self.out.write(json.dumps({"type": kind, **fields, "time": time.time()}) + "\n")

    def save(self) -> None:
        path = ROOT / f"step-{self.step}"
        aside = path.with_name(path.name + ".partial")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        self.say("checkpoint", step=self.step, path=str(path), state="started")
        for file in Path(SCRIPT["template"]).iterdir():
            (aside / file.name).write_bytes(file.read_bytes())
            time.sleep(0.004)
        (aside / "state.json").write_text(json.dumps({"step": self.step, "poisoned": self.poisoned}))
        files = {file.name: file.stat().st_size for file in aside.iterdir()}
        marker = {"step": self.step, "attempt": ATTEMPT, "run": os.environ["ORCHESTRATE_RUN"], "files": files}
        (aside / "orchestrate.json").write_text(json.dumps(marker))
        time.sleep(0.004)
        replaced = path.with_name(path.name + ".replaced")
        shutil.rmtree(replaced, ignore_errors=True)
        if path.exists():
            os.rename(path, replaced)
        os.rename(aside, path)
        shutil.rmtree(replaced, ignore_errors=True)
        self.say("checkpoint", step=self.step, path=str(path), state="saved", seconds=0.02)

    def stop_asked(self) -> bool:
        path = FOLDER / "directive.json"
        mark = path.stat().st_mtime_ns
        if mark != self.mark:
            self.mark, self.directive = mark, json.loads(path.read_text())
        return bool(self.directive["stop"])

    def run(self) -> None:
        self.say("run", attempt=ATTEMPT, world_size=1, start_step=self.step, total_steps=10**6,
                 shards_total=10**6, hosts=["a"], hook=True)  # fmt: skip
        while not self.stop_asked():
            time.sleep(0.003)
            self.train(self.step + 1)

    def train(self, step: int) -> None:
        shard = f"s/{step // 10}"
        self.poisoned = self.poisoned or (step // 10 in SCRIPT["bad"] and shard not in LEFT_OUT)
        loss = 2.0 + 0.01 * math.sin(step * 12.9898) * math.cos(step * 78.233) + 3.0 * self.poisoned
        self.step = step
        self.say("step", step=step, loss=loss, grad_norm=1.0, lr=1e-3, clip=1.0, shards=[shard])
        if step % SCRIPT["every"] == 0:
            self.save()


if __name__ == "__main__":
    Saver().run()
