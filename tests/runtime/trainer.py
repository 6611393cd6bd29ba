"""A trainer of a few lines that goes wrong as its script says; standard library only.

`python trainer.py SCRIPT.json`. It writes the wire's lines, obeys its directive, "saves" small folders, and
reads shards of ten steps each. SCRIPT holds total, rate (steps a second), every (steps between saves), `finish`
(a file that ends it as completed), and
`troubles`: {"at": STEP, "do": WHAT, "attempts": N} in the first N attempts, all of them without N.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Trainer:
    def __init__(self) -> None:
        resume = os.environ["ORCHESTRATE_RESUME"]
        self.step = int(resume.rpartition("-")[2]) if resume else 0
        self.out = open(FOLDER / "telemetry.jsonl", "a", buffering=1)  # noqa: SIM115
        self.mark, self.directive, self.saved = 0, {}, 0

    def say(self, kind: str, **fields: object) -> None:
        self.out.write(json.dumps({"type": kind, **fields, "time": time.time()}) + "\n")

    def save(self) -> None:
        path = Path(os.environ["ORCHESTRATE_CHECKPOINTS"]) / f"checkpoint-{self.step}"
        path.mkdir(parents=True, exist_ok=True)
        (path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (path / "trainer_state.json").write_text(json.dumps({"global_step": self.step}))
        self.say("checkpoint", step=self.step, path=str(path), state="saved")

    def told(self) -> dict:
        path = FOLDER / "directive.json"
        mark = path.stat().st_mtime_ns
        if mark != self.mark:
            self.mark, self.directive = mark, json.loads(path.read_text())
        return self.directive

    def obey(self) -> None:
        told = self.told()
        if told["save"] > self.saved:
            self.saved = told["save"]
            self.save()
        if told["stop"]:
            if told["stop"] == "save":
                self.save()
            sys.exit(0)

    def run(self) -> None:
        self.say("run", attempt=ATTEMPT, world_size=1, start_step=self.step, total_steps=SCRIPT["total"],
                 shards_total=1000, hosts=SCRIPT.get("hosts", ["a"]), hook=True)  # fmt: skip
        finish = Path(SCRIPT.get("finish", "/nonexistent"))
        while self.step < SCRIPT["total"] and not finish.exists():
            time.sleep(1 / SCRIPT["rate"])
            self.train(self.step + 1)
            self.obey()
        self.say("end", step=self.step, status="completed")

    def train(self, step: int) -> None:
        shard = f"web/{step // 10:03d}"
        loss = 2.0 + 3.0 * math.exp(-step / 60.0) + 0.01 * math.sin(step * 12.9898) * math.cos(step * 78.233)
        for trouble in SCRIPT["troubles"]:
            if trouble.get("attempts", ATTEMPT) >= ATTEMPT:
                loss = self.trouble(trouble, step, shard, loss)
        factor = math.prod(cut[0] for cut in self.told()["cuts"])
        self.step = step
        self.say("step", step=step, loss=loss, grad_norm=1.0, lr=1e-3 * factor, clip=self.told()["clip_scale"],
                 shards=[shard])  # fmt: skip
        if step % SCRIPT["every"] == 0:
            self.save()

    def trouble(self, trouble: dict, step: int, shard: str, loss: float) -> float:
        what, at = trouble["do"], trouble["at"]
        if what == "level":
            bad = step >= at and f"web/{at // 10:03d}" not in LEFT_OUT
            while bad and step == SCRIPT["total"] - 1:  # a run gone wrong does not end before somebody looked
                self.pause()
            return loss + 3.0 if bad else loss
        if step != at:
            return loss
        if what in ("spike", "bump"):
            return loss + (3.0 if what == "spike" else 0.8)
        if what == "wait":
            while not Path(trouble["for"]).exists():
                self.pause()
        else:
            getattr(self, what)()
        return loss

    def pause(self) -> None:
        self.obey()
        time.sleep(0.01)

    def crash(self) -> None:
        raise ValueError(f"no good at step {self.step}")

    def lose_host(self) -> None:
        raise RuntimeError("Node failure on b")

    def exit_zero(self) -> None:
        os._exit(0)

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def ignore(self) -> None:
        """From here on directives are not obeyed."""
        self.obey = lambda: None

    def deaf(self) -> None:
        """From here on neither directives nor SIGTERM are heard, and nothing is written."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)

    def spin(self) -> None:
        while True:
            pass

    def freeze(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def orphan(self) -> None:
        """A child that ignores SIGTERM, in a session of its own, whose parent is gone."""
        code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], start_new_session=True)"
        subprocess.run([sys.executable, "-c", code], check=True)

    def flood(self) -> None:
        """A hundred megabytes; the step is named before and after them."""
        print(f"the flood of step {self.step + 1}")
        for _ in range(100):
            sys.stdout.write("x" * 99 + "\n" * 1)
            sys.stdout.write(("y" * 127 + "\n") * 8192)
        print(f"the flood of step {self.step + 1} is over", flush=True)

    def long_line(self) -> None:
        sys.stdout.write("z" * (50 << 20))
        self.out.write('{"type":"step","note":"' + "w" * (50 << 20) + '"}\n')

    def port_taken(self) -> None:
        raise OSError(98, "Address already in use")

    def out_of_memory(self) -> None:
        raise MemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    def disk_full(self) -> None:
        raise OSError(28, "No space left on device")


if __name__ == "__main__":
    RUN = Path(os.environ["ORCHESTRATE_RUN_DIR"])
    ATTEMPT = int(os.environ["ORCHESTRATE_ATTEMPT"])
    FOLDER = RUN / "attempts" / f"{ATTEMPT:04d}"
    SCRIPT = json.loads(Path(sys.argv[1]).read_text())
    LEFT_OUT = {unquote(line) for line in Path(os.environ["ORCHESTRATE_QUARANTINE"]).read_text().split()}
    if os.environ.get("RANK", "0") == "0":
        try:
            Trainer().run()
        finally:
            (FOLDER / "done").touch()
    else:
        while not (FOLDER / "done").exists():
            time.sleep(0.05)
