"""What a decision would have cost or saved against what the recording shows; an estimate that says its grounds.

A rollback costs the steps from its target to the decision, which are trained again. What the recording
itself lost is taken from it: the steps that it went back when it was restarted, or the steps that it
spent above the old level. Steps trained after a rollback are nowhere recorded and are not guessed at.
"""

from collections.abc import Sequence
from typing import Any

from orchestrator.core.facts import Decision
from orchestrator.core.state import FAILURES
from orchestrator.review.teacher import Restart, Teacher


def compared(teacher: Teacher, incident: dict[str, Any], decided: Sequence[Decision]) -> dict[str, Any]:
    """The cost of the first decision that changes the run's course, beside what happened in the recording."""
    actions = [action for decision in decided for action in decision.actions]
    course = next((a for verb in ("rollback", "relaunch", "hold") for a in actions if a.verb == verb), None)
    at = course.step if course else actions[0].step if actions else incident["detected_step"]
    happened, lost = _happened(teacher, incident, at)
    again = at - course.to_step if course and course.to_step is not None else 0
    answer = {"decided_step": at, "redo_steps": again, "recording": happened, "lost_steps": lost, "saved_steps": None}
    if not decided:
        return {**answer, "note": "nothing was decided before the recording went on otherwise"}
    if course is None:
        return {**answer, "note": "nothing that is decided here changes the course at once; the recording goes on"}
    if course.verb == "hold":
        return {**answer, "note": f"the run would have stood still at step {at} until a person decides"}
    if incident["class"] in FAILURES:
        return {**answer, "saved_steps": lost - again, "note": "the job had ended in the recording, too"}
    note = f"the recording departs here: after step {at} it shows the run without the {course.verb}"
    return {**answer, "saved_steps": lost - again, "note": f"{note}; what follows is judged as it was recorded"}


def _happened(teacher: Teacher, incident: dict[str, Any], at: int) -> tuple[str, int]:
    """What the recording did about it by itself, and the steps it lost by that."""
    onset = incident["onset_step"] if isinstance(incident["onset_step"], int) else incident["onset_step"][1]
    end, attempt = incident["end_step"], incident["attempt"]
    restart = _restart(teacher, attempt)
    if restart is not None and (end is None or end >= restart.at):
        return f"was restarted at step {restart.at} from step {restart.start}", max(restart.at - restart.start, 0)
    if end is not None and incident["class"] != "nonfinite":
        return f"was above the old level until step {end}", max(end - at, 0)
    if end is not None:
        return f"showed finite values again after step {end}", max(end - at, 0)
    return f"never came back; it ends at step {teacher.state.step}", max(teacher.state.step - onset, 0)


def _restart(teacher: Teacher, attempt: int) -> Restart | None:
    """How the attempt that an incident happened in was left."""
    begun = [known.number for known in teacher.state.attempts]
    place = begun.index(attempt) if attempt in begun else -1
    return teacher.restarts[place] if 0 <= place < len(teacher.restarts) else None
