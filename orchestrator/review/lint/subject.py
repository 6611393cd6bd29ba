"""What a rule looks at: the policy in force, the one it extends, the job where one is named, and where things stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.core.facts import Verb
from orchestrator.core.policy import Ladder, Policy, Response
from orchestrator.store import yaml_text
from orchestrator.store.policy_text import Loaded, below
from orchestrator.store.yaml_text import Mark

if TYPE_CHECKING:
    from orchestrator.config import Config

MENDS: frozenset[Verb] = frozenset(
    {"lr", "clip", "skip", "stop", "rollback", "quarantine", "exclude", "relaunch", "reset_moments", "override", "hold"}
)  # fmt: skip


class Problem(NamedTuple):
    """Something a rule found: the path of the value it is about, and what is wrong there."""

    path: yaml_text.Path
    message: str


class Answers(NamedTuple):
    """One ladder of the policy, and the path it stands at."""

    name: str
    path: yaml_text.Path
    ladder: Ladder

    @property
    def mends(self) -> bool:
        """Whether anything in it changes the run."""
        return any(response.verb in MENDS for rung in self.ladder for response in rung)

    def responses(self, *verbs: Verb) -> Iterator[tuple[yaml_text.Path, Response]]:
        """Every response with one of these verbs, and its path."""
        for i, rung in enumerate(self.ladder):
            for j, response in enumerate(rung):
                if response.verb in verbs:
                    yield (*self.path, i, j), response


@dataclass(frozen=True)
class Subject:
    """A loaded policy as the rules see it; `policy` is the part of it that is right."""

    loaded: Loaded
    policy: Policy
    config: "Config | None" = None

    @cached_property
    def below(self) -> Loaded | None:
        """The text that it extends."""
        return below(self.loaded)

    @property
    def base(self) -> Policy | None:
        """The policy that it extends."""
        return self.below.policy if self.below is not None else None

    @cached_property
    def spikes(self) -> tuple[Answers, ...]:
        """The ladders of the five classes; minor level rises have one of their own."""
        return ladders(self.policy)

    @cached_property
    def failures(self) -> tuple[Answers, ...]:
        """What is answered to failures, as ladders of one rung."""
        known = ("crash", "hang", "oom", "disk_full", "preemption", "host")
        pairs = [(name, getattr(self.policy.failures, name).respond) for name in known]
        return tuple(Answers(name, ("failures", name, "respond"), (rung,)) for name, rung in pairs if rung)

    def uses(self, *verbs: Verb) -> Iterator[tuple[yaml_text.Path, Response]]:
        """Every response with one of these verbs in spikes and failures."""
        for answers in (*self.spikes, *self.failures):
            yield from answers.responses(*verbs)

    def has(self, path: yaml_text.Path) -> bool:
        """Whether a value is written somewhere in the text or what it extends."""
        return path in self.loaded.origin

    def says(self, path: yaml_text.Path) -> bool:
        """Whether the text itself (or an override) writes a value, not one that it extends."""
        place = self.loaded.origin.get(path)
        bases = {layer.file for layer in self.loaded.layers} - {self.loaded.file}
        return place is not None and (place.key.file not in bases or place.key.file.startswith("override "))

    def mark(self, path: yaml_text.Path) -> Mark:
        """Where a path, or the nearest above it, is written."""
        while path and path not in self.loaded.origin:
            path = path[:-1]
        place = self.loaded.origin.get(path)
        return place.key if place else Mark(self.loaded.file, 1, 1)

    @property
    def every(self) -> int | None:
        """The checkpoint cadence in steps, where it is one in steps."""
        every = self.policy.checkpoints.every
        return int(every.value) if every.unit == "steps" else None


def ladders(policy: Policy) -> tuple[Answers, ...]:
    """Every ladder of a policy's spikes."""
    spikes = policy.spikes
    named = [("isolated", spikes.isolated), ("repeated", spikes.repeated), ("persistent", spikes.persistent)]
    found = [Answers(name, ("spikes", name, "respond"), spike.respond) for name, spike in named]  # type: ignore[attr-defined]
    found.append(Answers("minor", ("spikes", "persistent", "minor", "respond"), spikes.persistent.minor.respond))
    found.append(Answers("nonfinite", ("spikes", "nonfinite", "respond"), spikes.nonfinite.respond))
    found.append(Answers("rank_local", ("spikes", "rank_local", "respond"), spikes.rank_local.respond))
    return tuple(found)
