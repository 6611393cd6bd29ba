"""A run as its journal tells it, in the shapes that `status --json` and `replay --json` promise."""

from pathlib import Path
from typing import Any

from orchestrator.config import RunDir
from orchestrator.core.facts import Action
from orchestrator.core.health import health
from orchestrator.core.interval import interval
from orchestrator.core.rules import Rules
from orchestrator.core.schedule import clip_at, lr_scale
from orchestrator.core.state import Incident, Read, State, attempt_of
from orchestrator.errors import RunDirError
from orchestrator.store import journal
from orchestrator.store.recorded import fold


def known(path: str | Path) -> tuple[Rules, State, RunDir]:
    """What is known of a run directory; RunDirError where there is none."""
    run = RunDir(Path(path))
    if not run.journal.is_file():
        raise RunDirError(f"{path}: there is no run here (no {run.journal.name})")
    header = journal.header_of(run.journal)
    if not header:
        raise RunDirError(f"{path}: the run has not begun yet")
    rules, _, state = fold(header, journal.stream(run.journal))
    return rules, state, run


def action_json(action: Action, status: str = "", detail: str = "") -> dict[str, Any]:
    """One action: its step, verb and the arguments it has."""
    args: dict[str, Any] = {}
    for name in ("to_step", "path", "factor", "why"):
        if (value := getattr(action, name)) not in (None, ""):
            args[name] = value
    if action.shards:
        args["shards"] = list(action.shards)
    told = {"step": action.step, "verb": action.verb, "args": args}
    return {**told, "outcome": status, "detail": detail} if status else told


def incident_json(incident: Incident, actions: list[dict[str, Any]]) -> dict[str, Any]:
    """One incident with the actions it caused."""
    low, onset = incident.onset_low, incident.onset
    return {
        "id": incident.id,
        "class": incident.cls,
        "severity": incident.severity,
        "stage": incident.stage,
        "attempt": incident.attempt,
        "onset_step": onset if low >= onset else [low, onset],
        "detected_step": incident.detected,
        "end_step": incident.end,
        "peak": incident.peak,
        "peak_step": incident.peak_step,
        "rank": incident.rank,
        "events": incident.events,
        "reason": incident.reason,
        "verdict": incident.verdict or incident.reason,
        "shards": list(incident.shards),
        "batches": [_batch_json(read) for read in incident.batches],
        "actions": actions,
    }


def _batch_json(read: Read) -> dict[str, Any]:
    """What is known of one step's batch."""
    ids, more, max_len, loss_tokens = read.batch
    told = {"ids": list(ids) or None, "ids_more": more or None, "max_len": max_len, "loss_tokens": loss_tokens}
    return {"step": read.step} | {name: value for name, value in told.items() if value is not None}


def incidents_json(state: State) -> list[dict[str, Any]]:
    """Every incident that was not merged into another."""
    told: dict[int, list[dict[str, Any]]] = {incident.id: [] for incident in state.incidents}
    for o in state.actions:
        told.get(o.action.incident, []).append(
            action_json(o.action, o.status if o.applied else "not applied", o.detail)
        )
    return [incident_json(incident, told[incident.id]) for incident in state.incidents if incident.merged is None]


def checkpoints_json(rules: Rules, state: State) -> list[dict[str, Any]]:
    """Every checkpoint with its health and the reason for it, by step."""
    told = []
    for checkpoint in sorted(state.checkpoints, key=lambda c: (c.step, c.attempt)):
        verdict = health(rules, state, checkpoint)
        told.append(
            {"step": checkpoint.step, "path": checkpoint.path, "attempt": checkpoint.attempt,
             "health": verdict.health, "reason": verdict.reason}
        )  # fmt: skip
    return told


def status_json(rules: Rules, state: State) -> dict[str, Any]:
    """The whole of `status --json`."""
    attempt = attempt_of(state, state.attempt)
    running = attempt is not None and attempt.exited is None and attempt.pid
    limits = rules.policy.limits
    spent = [frontier for frontier in state.counts.rollbacks if frontier > state.frontier - limits.rollbacks.per]
    return {
        "state": "running" if state.status == "starting" else state.status,
        "why": state.why,
        "attempt": state.attempt,
        "step": state.step,
        "frontier": state.frontier,
        "total": state.total,
        "lr_scale": lr_scale(state.levels.cuts, state.step),
        "clip": clip_at(rules.policy, max(state.step, 1), state.levels.clip_scale),
        "pid": attempt.pid if attempt and running else None,
        "incidents": incidents_json(state),
        "checkpoints": checkpoints_json(rules, state),
        "cadence": interval(state).words() if rules.policy.checkpoints.every.unit == "auto" else None,
        "quarantine": [
            {"shard": shard, "incident": incident or None, "expires_step": expires}
            for shard, incident, expires in state.levels.quarantine
        ],
        "hosts_left_out": list(state.levels.hosts),
        "limits": {
            "rollbacks": {"spent": len(spent), "max": limits.rollbacks.max, "per": limits.rollbacks.per},
            "relaunches": {"spent": state.counts.relaunches, "max": limits.relaunches.max},
            "failures": dict(state.counts.failures),
        },
        "eval": {name: value for name, _, _, value in state.evals},
    }
