"""How a run ended: its exit code, exit.json, and after a hold the page that tells a person what to do."""

from typing import Any

from orchestrator.config import RunDir
from orchestrator.core.health import newest_complete, targets
from orchestrator.core.policy import SEVERITIES
from orchestrator.core.rules import Rules
from orchestrator.core.state import State
from orchestrator.wire import write_json


def exit_code(state: State) -> int:
    """0 the job reached its end, 1 it failed untreated, 3 the policy or an operator stopped it, 75 requeue."""
    if state.status == "completed":
        high = SEVERITIES.index("high")
        return 1 if any(i.live and SEVERITIES.index(i.severity) >= high for i in state.incidents) else 0
    return {"failed": 1, "held": 3, "stopped": 3, "preempted": 75}.get(state.status, 70)


def why(state: State) -> str:
    """The reason in words."""
    if state.status != "completed":
        return state.why or state.status
    live = [i for i in state.incidents if i.live and i.cls != "isolated"]
    if live:
        named = ", ".join(f"{i.id} ({i.cls}, {i.severity}, {i.stage})" for i in live)
        return f"the job reached its end, with incident {named} not closed: its last checkpoint is not proved"
    return "the job reached its end"


def write(run: RunDir, state: State, seconds: float) -> None:
    """Leave exit.json."""
    body: dict[str, Any] = {
        "code": exit_code(state), "state": state.status, "why": why(state), "attempt": state.attempt,
        "step": state.step, "seconds": round(seconds, 1),
    }  # fmt: skip
    write_json(run.exit, body)


def last_page(rules: Rules, state: State, run: RunDir) -> list[str]:
    """After a hold: what happened, what stands, and what a person can do next."""
    best = next((t for t in targets(rules, state, 1 << 62) if t.path), None)
    newest = newest_complete(rules, state)
    where = f"{best.path} (step {best.step})" if best else "none is proved healthy"
    lines = [
        f"The run is held: {state.why}",
        "Nothing of the job runs any more; every checkpoint, log and record was kept.",
        f"Newest healthy checkpoint: {where}",
    ]
    if newest.path and (best is None or newest.path != best.path):
        lines.append(f"Newest complete one: {newest.path} (step {newest.step})")
    if state.levels.quarantine:
        lines.append("Left out: " + ", ".join(shard for shard, *_ in state.levels.quarantine))
    return [
        *lines,
        "What to do:",
        f"  look      orchestrate status {run.path}",
        f"            {run.attempt(state.attempt).output}",
        "  mend      the data, the code or the policy, whichever the incidents above point to",
        f"  go on     orchestrate ctl {run.path} release --why '...', then the same run command again",
    ]
