"""A job that exists only as facts: it obeys what is decided and goes wrong as it is told."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from orchestrator import registry
from orchestrator.core.decide import decide
from orchestrator.core.facts import (
    Action,
    Announced,
    Batch,
    Checkpoint,
    Decision,
    Exited,
    Fact,
    Launched,
    Order,
    Outcome,
    Step,
    Tick,
    step_of,
)  # fmt: skip
from orchestrator.core.policy import Policy
from orchestrator.core.rules import Rules
from orchestrator.core.state import FINAL, State, first
from orchestrator.store.policy_text import checked, load, load_text, locate


def policy(name: str = "pretrain", **overrides: str) -> Policy:
    """A shipped policy with overrides, `a__b="1"` for a.b."""
    given = [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]
    return checked(load(locate(name), given))


def policy_of(text: str) -> Policy:
    """A policy from its text."""
    return checked(load_text(text, "policy.yaml", None))


def noise(step: int, scale: float = 0.01) -> float:
    """A repeatable small disturbance, the same for the same step."""
    return scale * math.sin(step * 12.9898) * math.cos(step * 78.233)


def healthy(step: int) -> float:
    """A loss that falls and flattens."""
    return 2.0 + 3.0 * math.exp(-step / 60.0) + noise(step)


Trouble = Callable[[int, int], dict[str, object] | str | None]


@dataclass
class Job:
    """Facts of a run: `trouble(attempt, step)` gives values of a step to replace, or "crash", "hang" or "stop"."""

    rules: Rules
    trouble: Trouble = lambda attempt, step: None
    total: int = 600
    save_every: int = 50
    facts: list[Fact] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    time: float = 0.0
    broken: Callable[[str], bool] = lambda path: False  # what a look before a load finds

    def __post_init__(self) -> None:
        self.state: State = first(self.rules)
        self.todo: list[Action] = []
        self.attempt, self.step, self.alive = 0, 0, False

    def tell(self, fact: Fact) -> None:
        """One fact through decide; what is decided is to be done."""
        self.facts.append(fact)
        self.state, decided = decide(self.rules, self.state, fact)
        for decision in decided:
            self.facts.append(decision)
            self.decisions.append(decision)
            if decision.mode == "act":
                self.todo += decision.actions

    def run(self, limit: int = 20_000) -> State:
        """Until a final status, or so many facts."""
        self.tell(Tick(self.time))
        while self.state.status not in FINAL and len(self.facts) < limit:
            self.time += 1.0
            if self.todo:
                self._do(self.todo.pop(0))
            elif self.alive:
                self._step()
            else:
                self.tell(Tick(self.time))
        while self.todo:
            self._do(self.todo.pop(0))
        return self.state

    def _do(self, action: Action) -> None:
        if action.verb == "stop" and self.alive:
            self.alive = False
            self.tell(Exited(self.attempt, 0, None, "crash", "asked", self.time))
        if action.verb in ("rollback", "relaunch") and action.path and self.broken(action.path):
            self.tell(Checkpoint(1, action.to_step or 0, action.path, "corrupt", "a flipped bit", self.time))
            self.tell(Outcome(action.id, "failed", "its digest differs", self.time))
            return
        if action.verb == "relaunch" and self.attempt != action.attempt + 1:
            self.attempt, self.step, self.alive = action.attempt + 1, action.to_step or 0, True
            self.tell(Launched(self.attempt, self.step, action.path, "here", 1, self.time))
            self.tell(Announced(self.attempt, self.step, self.total, 1, 1000, ("here",), True, self.time))
        self.tell(Outcome(action.id, "done", "ok", self.time))

    def _step(self) -> None:
        self.step += 1
        happened = self.trouble(self.attempt, self.step)
        if happened == "crash":
            self.alive = False
            self.tell(Exited(self.attempt, 1, None, "crash", f"failed at {self.step}", self.time))
            return
        if happened == "hang":
            self.step -= 1
            self.time += 100_000.0
            self.tell(Tick(self.time))
            return
        if happened == "stop":
            self.tell(Order("stop", "somebody", self.time))
            return
        scale = math.prod(cut.factor for cut in self.state.levels.cuts)
        values: dict[str, object] = {"loss": healthy(self.step), "grad_norm": 1.0 + noise(self.step, 0.1)}
        values |= {"lr": 1e-3 * scale, "clip": self.state.levels.clip_scale}
        rest: dict[str, object] = {"shards": (f"shard-{self.step // 10}",), "time": self.time}
        rest["batch"] = Batch((f"doc-{self.step}",), 7, 512.0, 16_000.0)
        for key, value in (happened or {}).items():  # type: ignore[union-attr]
            (values if key in values else rest)[key] = value
        self.tell(step_of(self.attempt, self.step, values, **rest))  # type: ignore[arg-type]
        if self.step % self.save_every == 0:
            self.tell(Checkpoint(self.attempt, self.step, f"step-{self.step}", "saved", time=self.time))
        if self.step >= self.total:
            self.alive = False
            self.tell(Exited(self.attempt, 0, None, "crash", "exit code 0", self.time))


def simulate(text: Policy, trouble: Trouble = lambda attempt, step: None, total: int = 600) -> Job:
    """A run by a policy, to its end."""
    job = Job(registry.bind(text), trouble, total)
    job.run()
    return job


def given(facts: list[Fact]) -> Iterator[Fact]:
    """The facts that no decision of ours made."""
    return (fact for fact in facts if not isinstance(fact, Decision))


__all__ = ["Job", "Step", "given", "healthy", "noise", "policy", "policy_of", "simulate"]
