"""The answer of replay as lines for a person."""

from typing import Any


def lines(answer: dict[str, Any]) -> str:
    """Every recording with its incidents, what was decided, and the estimate."""
    return "\n\n".join("\n".join(_recording(told)) for told in answer["recordings"])


def _recording(told: dict[str, Any]) -> list[str]:
    speed = told["records"] / told["seconds"] if told["seconds"] else 0.0
    skipped = f", {told['skipped_lines']} line(s) could not be read" if told["skipped_lines"] else ""
    text = [
        f"{told['recording']} ({told['format']}): {told['steps']} steps, {told['records']} records{skipped}, "
        f"{told['seconds']:.1f} s ({speed:,.0f} records/s)"
    ]
    if told["checkpoints"] == "assumed":
        text.append("  checkpoints are assumed at the policy's cadence: the recording tells of none")
    for incident in told["incidents"]:
        text += _incident(incident)
    if not told["incidents"]:
        text.append("  nothing happened that this policy would have noticed")
    return [*text, *_verdict(told)]


def _incident(incident: dict[str, Any]) -> list[str]:
    onset, end = incident["onset_step"], incident["end_step"]
    where = f"{onset[0]}..{onset[1]}" if isinstance(onset, list) else str(onset)
    rank = f", rank {incident['rank']}" if incident["rank"] is not None else ""
    left = "left by a restart" if incident["stage"] == "closed" else "open to the end"
    until = f"to {end}" if end is not None else left
    text = [
        f"  incident {incident['id']}: {incident['class']} ({incident['severity']}{rank}), onset {where}, "
        f"seen at {incident['detected_step']}, {until}: {incident['reason']}"
    ]
    for action in incident["actions"]:
        args = {key: value for key, value in action["args"].items() if key not in ("why", "path")}
        given = "".join(f" {key}={_short(value)}" for key, value in args.items())
        why = f"  ({action['args']['why']})" if "why" in action["args"] else ""
        text.append(f"    step {action['step']}: {action['verb']}{given}{why}")
    if not incident["actions"]:
        text.append("    nothing would have been done")
    judged = incident.get("counterfactual")
    if judged:
        text += [f"    the recording {judged['recording']} ({judged['lost_steps']} steps lost)" + _cost(judged)]
        text.append(f"    note: {judged['note']}")
    return text


def _cost(judged: dict[str, Any]) -> str:
    if judged["saved_steps"] is None:
        return ""
    return f"; the policy's answer trains {judged['redo_steps']} steps again: {_balance(judged['saved_steps'])}"


def _balance(saved: int) -> str:
    return f"about {saved} steps saved" if saved >= 0 else f"about {-saved} steps more than what happened"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{len(value)} shard(s)" if isinstance(value, list) else str(value)


def _verdict(told: dict[str, Any]) -> list[str]:
    if "agrees" in told:
        if told["agrees"]:
            return [f"  this is the run's own policy: all {told['decisions']} recorded decisions come out the same"]
        difference = told["difference"]
        return [
            f"  this is the run's own policy, but a decision comes out otherwise at step {difference['step']}:",
            f"    recorded:   {difference['recorded']}",
            f"    recomputed: {difference['recomputed']}",
        ]
    return [f"  in all: {_balance(told['saved_steps'])} (an estimate; see the notes)"] if told["incidents"] else []
