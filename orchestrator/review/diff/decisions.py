"""What two policies decide on the same recordings, teacher-forced: at every incident, here as it was recorded."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from orchestrator import registry
from orchestrator.core.policy import Policy
from orchestrator.review.recording import Recording
from orchestrator.review.replay import forced

REACH = 20  # steps that two onsets of the same trouble may lie apart


class Difference(NamedTuple):
    """One incident that the two policies answer differently; None where a policy sees none."""

    old: dict[str, Any] | None
    new: dict[str, Any] | None
    what: tuple[str, ...]

    @property
    def step(self) -> int:
        """Where it is in the recording."""
        known = self.old or self.new or {}
        return int(known["detected_step"])


class Compared(NamedTuple):
    """Both policies on one recording."""

    recording: str
    steps: int
    old: dict[str, Any]
    new: dict[str, Any]
    same: int
    differences: tuple[Difference, ...]


def on(old: Policy, new: Policy, recordings: Sequence[str], format: str | None = None) -> list[Compared]:
    """Every recording under both policies; ConfigError where one cannot be read."""
    rules = registry.bind(old), registry.bind(new)
    opened = [Recording(path, format) for path in recordings]
    return [_compared(each.path, forced(rules[0], each), forced(rules[1], each)) for each in opened]


def _compared(path: str, old: dict[str, Any], new: dict[str, Any]) -> Compared:
    pairs = _paired(*([i for i in told["incidents"] if i["severity"] != "info"] for told in (old, new)))
    found = [Difference(one, other, tuple(_what(one, other))) for one, other in pairs]
    differences = tuple(sorted((each for each in found if each.what), key=lambda each: each.step))
    return Compared(path, old["steps"], old, new, len(found) - len(differences), differences)


Pair = tuple[dict[str, Any] | None, dict[str, Any] | None]


def _paired(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[Pair]:
    """The same trouble as both policies see it: the nearest of the same attempt that overlaps."""
    left = list(new)
    pairs: list[Pair] = []
    for one in old:
        near = [other for other in left if other["attempt"] == one["attempt"] and _overlap(one, other)]
        best = min(near, key=lambda other: (abs(_onset(other) - _onset(one)), other["id"]), default=None)
        if best is not None:
            left.remove(best)
        pairs.append((one, best))
    return pairs + [(None, other) for other in left]


def _onset(incident: dict[str, Any]) -> int:
    onset = incident["onset_step"]
    return int(onset[1] if isinstance(onset, list) else onset)


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    spans = [(_onset(i), i["end_step"] if i["end_step"] is not None else i["detected_step"]) for i in (one, other)]
    return bool(spans[0][0] <= spans[1][1] + REACH and spans[1][0] <= spans[0][1] + REACH)


def _what(one: dict[str, Any] | None, other: dict[str, Any] | None) -> list[str]:
    """In what the two differ; nothing when they decide the same."""
    if one is None or other is None:
        return ["only seen after the change" if one is None else "no longer seen"]
    found = [key for key in ("class", "severity", "rank") if one[key] != other[key]]
    if [_done(action) for action in one["actions"]] != [_done(action) for action in other["actions"]]:
        found.append("actions")
    elif [action["step"] for action in one["actions"]] != [action["step"] for action in other["actions"]]:
        found.append("step")
    return found


def _done(action: dict[str, Any]) -> tuple[Any, ...]:
    args = action["args"]
    return (action["verb"], args.get("to_step"), args.get("factor"), tuple(args.get("shards", ())))
