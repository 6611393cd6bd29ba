"""Exclude: the host of an odd or failed rank is left out from the next launch on."""

import re

from orchestrator.core.facts import Action
from orchestrator.core.policy import Response
from orchestrator.core.rules import Refusal, World
from orchestrator.core.state import Incident, Situation, State


def plan(situation: Situation, response: Response) -> Action | Refusal:
    """The host that the incident points to; never the last one."""
    state = situation.state
    suspects = [host for host in _suspects(state, situation.incident) if host not in state.levels.hosts]
    if not suspects:
        return Refusal("the records do not tell which host it was")
    if not set(state.hosts) - set(state.levels.hosts) - set(suspects):
        return Refusal(f"{', '.join(suspects)} is the only host there is")
    return situation.action("exclude", f"host {', '.join(suspects)}")._replace(hosts=tuple(suspects))


def _suspects(state: State, incident: Incident) -> list[str]:
    """The rank's host, ranks laid out evenly over the hosts; else every known host that the reason names."""
    hosts = state.hosts
    if incident.rank is not None and hosts:
        each = max(-(-(state.world_size or len(hosts)) // len(hosts)), 1)
        return [hosts[min(incident.rank // each, len(hosts) - 1)]]
    words = set(re.split(r"[^\w.-]+", incident.reason))
    return [host for host in dict.fromkeys(hosts) if host in words]


def apply(action: Action, world: World) -> str:
    """The list is part of the levels; the next launch reads it."""
    return world.exclude_hosts(action.hosts)
