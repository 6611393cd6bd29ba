"""A policy bound to its plug-ins, and what plug-ins are to the core: the protocols that they satisfy."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from orchestrator.core.facts import Action, Reading, Step, Verb
from orchestrator.core.policy import Policy, Response

if TYPE_CHECKING:
    from orchestrator.core.state import Situation


class Detector(Protocol):
    """One streaming detector; pure: the state goes in and comes out.

    `start` is the state before any record. `update` takes constant time a record and returns the next
    state and what it saw, None when nothing is out of order; a point it flags never enters its baseline.
    `rebase` is called at a planned change: the old level no longer binds.
    """

    def start(self) -> tuple: ...  # type: ignore[type-arg]

    def update(self, state: tuple, point: Step) -> tuple[tuple, Reading | None]: ...  # type: ignore[type-arg]

    def rebase(self, state: tuple) -> tuple: ...  # type: ignore[type-arg]


class World(Protocol):
    """What an action may do; runtime implements it, tests fake it."""

    def start(self, attempt: int, step: int, checkpoint: str) -> str:
        """Start this attempt of the job from a checkpoint ("" is fresh), with the levels now wished for."""
        ...

    def stop(self, attempt: int, save: bool = False) -> str:
        """End this attempt: ask (for a last checkpoint too), wait, insist; return only when none of it is left."""
        ...

    def direct(self) -> str:
        """Tell the running trainer the levels now wished for."""
        ...

    def point_to(self, step: int, checkpoint: str) -> str:
        """Make the checkpoint layout's own pointers name this checkpoint."""
        ...

    def exclude(self, shards: Sequence[str]) -> str:
        """Leave these shards out from the next launch on."""
        ...

    def exclude_hosts(self, hosts: Sequence[str]) -> str:
        """Leave these hosts out from the next launch on."""
        ...

    def dump(self, attempt: int) -> str:
        """Keep the stacks of every rank."""
        ...

    def notify(self, action: Action) -> str:
        """Tell people or machines outside; never waits for them."""
        ...


class Refusal(NamedTuple):
    """An action that cannot or must not be planned, and why; `hold` where a person has to decide."""

    why: str
    hold: bool = False


class Planner(Protocol):
    """The pure half of an action: from a response of the policy to an absolute action."""

    def __call__(self, situation: "Situation", response: Response, /) -> Action | Refusal: ...


class Rules(NamedTuple):
    """A policy bound to its plug-ins: what evolve, plan and decide work by."""

    policy: Policy
    detectors: tuple[tuple[str, Detector], ...]
    planners: Mapping[Verb, Planner]
    planned: bool = False  # whether the recorded rate is this policy's: it has a schedule, and the run is its own
