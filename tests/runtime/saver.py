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
    def __init__(self, script: Path) -> None:
        run, resume = Path(os.environ["ORCHESTRATE_RUN_DIR"]), os.environ["ORCHESTRATE_RESUME"]
        self.script = json.loads(script.read_text())
        self.root, self.attempt = Path(os.environ["ORCHESTRATE_CHECKPOINTS"]), int(os.environ["ORCHESTRATE_ATTEMPT"])
        self.folder = run / "attempts" / f"{self.attempt:04d}"
        left_out = Path(os.environ["ORCHESTRATE_QUARANTINE"]).read_text()
        self.left_out = {unquote(line) for line in left_out.split()}
        self.step, self.poisoned = 0, False
        if resume:
            if found := wrong(Path(resume)):
                with open(run / "violations.txt", "a") as file:
                    file.write(f"attempt {self.attempt} was told to load {found}\n")
                sys.exit(9)
            self.step = json.loads((Path(resume) / "state.json").read_text())["step"]
        self.out = open(self.folder / "telemetry.jsonl", "a", buffering=1)  # noqa: SIM115
        self.mark, self.directive = 0, {}

    def say(self, kind: str, **fields: object) -> None:
        self.out.write(json.dumps({"type": kind, **fields, "time": time.time()}) + "\n")

    def save(self) -> None:
        path = self.root / f"step-{self.step}"
        aside = path.with_name(path.name + ".partial")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        self.say("checkpoint", step=self.step, path=str(path), state="started")
        for file in Path(self.script["template"]).iterdir():
            (aside / file.name).write_bytes(file.read_bytes())
            time.sleep(0.004)
        (aside / "state.json").write_text(json.dumps({"step": self.step, "poisoned": self.poisoned}))
        files = {file.name: file.stat().st_size for file in aside.iterdir()}
        marker = {"step": self.step, "attempt": self.attempt, "run": os.environ["ORCHESTRATE_RUN"], "files": files}
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
        path = self.folder / "directive.json"
        mark = path.stat().st_mtime_ns
        if mark != self.mark:
            self.mark, self.directive = mark, json.loads(path.read_text())
        return bool(self.directive["stop"])

    def run(self) -> None:
        self.say("run", attempt=self.attempt, world_size=1, start_step=self.step, total_steps=10**6,
                 shards_total=10**6, hosts=["a"], hook=True)  # fmt: skip
        while not self.stop_asked():
            time.sleep(0.005)
            self.train(self.step + 1)

    def train(self, step: int) -> None:
        shard = f"s/{step // 10}"
        self.poisoned = self.poisoned or (step // 10 in self.script["bad"] and shard not in self.left_out)
        loss = 2.0 + 0.01 * math.sin(step * 12.9898) * math.cos(step * 78.233) + 3.0 * self.poisoned
        self.step = step
        self.say("step", step=step, loss=loss, grad_norm=1.0, lr=1e-3, clip=1.0, shards=[shard])
        if step % self.script["every"] == 0:
            self.save()


if __name__ == "__main__":
    Saver(Path(sys.argv[1])).run()
