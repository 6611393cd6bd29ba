"""How the processes of an attempt come together: who takes part, and what all of them go by."""

import os
import socket
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist

from orchestrator import wire
from orchestrator.core.policy import Policy
from orchestrator.core.schedule import policy_of
from orchestrator.training.inbox import Directive, directive_of
from orchestrator.training.shield import warn

_ATTACHED = "ORCHESTRATE_ATTACHED"


class Place(NamedTuple):
    """Where an attempt lives, and which of its processes this is."""

    run_dir: Path
    attempt: int
    rank: int

    @property
    def folder(self) -> Path:
        """The attempt's own folder."""
        return wire.attempt_dir(self.run_dir, self.attempt)


class Terms(NamedTuple):
    """What rank 0 read at the start and every rank goes by."""

    policy: Policy | None = None
    directive: Directive = Directive()
    hosts: tuple[str, ...] = ()
    world: int = 1


def claim(place: Place) -> bool:
    """Whether this process may take part: children inherit the environment, and must not speak for their parent.

    Rank 0 leaves its pid in the attempt's folder; a dead process's claim is taken over (an elastic restart).
    """
    mine = str(os.getpid())
    other, _, folder = os.environ.get(_ATTACHED, "").partition(" ")
    if other not in ("", mine) and folder == str(place.folder) and _lives(other):
        warn(f"process {mine} was started by {other}, which takes part in this run already; it trains on its own")
        return False
    os.environ[_ATTACHED] = f"{mine} {place.folder}"
    if place.rank:
        return True
    holder = _hold(place.folder / "hook.pid", mine)
    if holder != mine:
        warn(f"attempt {place.attempt} already has its rank 0, process {holder}; process {mine} trains on its own")
    return holder == mine


def _hold(path: Path, mine: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(mine)
            return mine
    except FileExistsError:
        holder = path.read_text(encoding="utf-8")
        if holder != mine and _lives(holder):
            return holder
        path.write_text(mine, encoding="utf-8")
        return mine


def _lives(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError):
        return True
    return True


def meet(place: Place) -> Terms:
    """Agree on the plan and the first directive, both as rank 0 finds them; a collective call on all ranks."""
    said: list[Any] = [_say(place)]
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        mine = said[0]
        said = [None] * dist.get_world_size()
        dist.all_gather_object(said, mine)
    _, plan, raw = said[0]
    policy = None if plan is None else policy_of(plan)
    hosts = tuple(dict.fromkeys(host for host, _, _ in said))
    return Terms(policy, directive_of(raw, place.attempt) or Directive(), hosts, len(said))


def _say(place: Place) -> tuple[str, Any, Any]:
    if place.rank:
        return socket.gethostname(), None, None
    return socket.gethostname(), wire.read_json(place.folder / wire.PLAN), wire.read_json(place.folder / wire.DIRECTIVE)
