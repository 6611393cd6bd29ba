"""What happened, in sentences for the engineer on call: the trouble, why it is one, what was done, what came of it."""

from collections.abc import Sequence

from orchestrator.core.facts import Action, Cut, Reading
from orchestrator.core.state import Incident, Ordered, Read
from orchestrator.review.report_markup import short
from orchestrator.review.report_story import Story

WHAT = {
    "isolated": "the loss spiked and came back",
    "repeated": "the loss spiked again and again",
    "persistent": "the loss left its level and did not come back",
    "nonfinite": "a value was not finite",
    "rank_local": "one rank was odd against its peers",
    "hang": "the job took no more steps",
    "crash": "the job crashed",
    "oom": "the job ran out of memory",
    "disk_full": "the disk was full",
    "preemption": "the cluster took the machine back",
    "host": "a host failed",
    "lr_mismatch": "the learning rate was not the ordered one",
    "resume_mismatch": "the job did not resume where it was told to",
    "data_replayed": "data was read a second time",
    "loss_scale": "the loss scale collapsed",
    "silent": "training went on without learning",
}
STANDS = {
    "completed": "The run completed", "held": "The run is held for a person", "failed": "The run failed",
    "stopped": "The run was stopped", "preempted": "The run was preempted", "running": "The run goes on",
    "starting": "The run is starting", "stopping": "The run is stopping", "relaunching": "The run is being relaunched",
}  # fmt: skip
_NAMED = 3  # shards and ids that are named, of many


def stands(story: Story) -> str:
    """How the run stands, in one sentence."""
    state = story.state
    total = f" of {state.total:,}" if state.total else ""
    why = "" if state.status in ("completed", "running", "starting") or not state.why else f": {state.why}"
    return f"{STANDS[state.status]} at step {state.step:,}{total}{why}."


def headline(story: Story) -> str:
    """The whole run in a few short sentences: its gravest incident, the answer, and how it stands."""
    incident = story.gravest()
    if story.empty:
        return "There are no steps yet."
    if incident is None:
        return f"No incident. {stands(story)}"
    parts = [f"Step {incident.onset:,}: {WHAT[incident.cls]} ({incident.reason})."]
    done = [phrase for o in story.actions(incident.id) if (phrase := done_phrase(o))]
    if done:
        said = ", ".join(dict.fromkeys(done))
        acted = any(o.applied for o in story.actions(incident.id))
        parts.append(f"{_capital(said)}." if acted else f"Only decided, not done: {said}.")
    if incident.stage == "closed" and any(o.action.verb == "rollback" and o.applied for o in story.actions()):
        parts.append("The old level holds again.")
    return " ".join([*parts, stands(story)])


def shards(names: Sequence[str], most: int = _NAMED) -> str:
    """Shard names, the first ones of many.

    >>> shards(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    named = ", ".join(short(name) for name in names[:most])
    return named if len(names) <= most else f"{named} and {len(names) - most} more"


def action_phrase(action: Action) -> str:
    """What an action does, in words."""
    match action.verb:
        case "rollback":
            return f"rolled back to step {action.to_step or 0:,}"
        case "lr":
            return _cut(action.cuts[-1]) if action.cuts else f"learning rate × {action.factor or 0:g}"
        case "clip":
            return f"gradient clip × {action.factor:g}" if action.factor is not None else "gradient clip changed"
        case "quarantine":
            return f"{shards(action.shards)} left out" if action.shards else "nothing to leave out"
        case "exclude":
            return f"host {', '.join(action.hosts)} left out"
        case "relaunch":
            return f"relaunched from step {action.to_step:,}" if action.to_step else "started from the beginning"
        case "hold":
            return "held for a person"
        case "stop":
            return "the job stopped"
        case "record":
            return f"recorded ({shards(action.shards)})" if action.shards else "recorded"
        case _:
            return _VERBS[action.verb]


_NOUNS = {"lr": "learning rate", "clip": "gradient clip"}
_ANSWERS = {
    "hold": "held", "rollback": "rolled back", "quarantine": "data left out", "lr": "rate cut", "clip": "clip cut",
    "relaunch": "relaunched", "skip": "update skipped", "record": "recorded",
}  # fmt: skip
_VERBS = {
    "notify": "people told", "checkpoint": "one more checkpoint", "skip": "update skipped", "dump": "stacks dumped",
    "reset_moments": "optimizer moments reset", "override": "job settings changed",
}  # fmt: skip


def _cut(cut: Cut) -> str:
    back = f", given back from step {cut.step + cut.after:,} on" if cut.after is not None else ""
    return f"learning rate × {cut.factor:g}{back}"


def done_phrase(ordered: Ordered) -> str:
    """An action for the headline; empty where another says the same."""
    action = ordered.action
    if action.verb in ("stop", "record", "notify", "relaunch", "dump", "hold"):
        return ""
    phrase = f"learning rate × {action.cuts[-1].factor:g}" if action.verb == "lr" and action.cuts else None
    if action.verb == "quarantine" and action.shards:
        phrase = f"{shards([short(name, 28) for name in action.shards], 1)} left out"
    phrase = phrase or action_phrase(action)
    return f"{phrase} (failed)" if ordered.status == "failed" else phrase


def answer(actions: Sequence[Ordered]) -> str:
    """The strongest thing that was done, in a word or two; empty when nothing was."""
    done = {ordered.action.verb for ordered in actions if ordered.applied and ordered.status != "failed"}
    return next((word for verb, word in _ANSWERS.items() if verb in done), "")


# --- one incident in full ----------------------------------------------------------------------------


def paragraphs(story: Story, incident: Incident) -> list[tuple[str, str]]:
    """What, why, done, confirmed and now, each with its text; what does not apply is left out."""
    actions = story.actions(incident.id)
    told = [
        ("What", _what(incident)),
        ("Why", _why(incident)),
        ("Done", _done(actions, story.heard.decided.get(incident.id, ""))),
        ("Seen in the metrics", _confirmed(actions)),
        ("Now", _now(story, incident, actions)),
    ]
    return [(name, text) for name, text in told if text]


def _what(incident: Incident) -> str:
    low, onset = incident.onset_low, incident.onset
    where = f"step {onset:,}" if low >= onset else f"a step between {low:,} and {onset:,}"
    rank = f" (rank {incident.rank})" if incident.rank is not None else ""
    text = f"From {where} of attempt {incident.attempt} on, {WHAT[incident.cls]}{rank}: {incident.reason}."
    if incident.peak is not None and incident.peak_step is not None:
        was = f" from a level of {incident.baseline:.4g}" if incident.baseline else ""
        text += f" It reached {incident.peak:.4g} at step {incident.peak_step:,}{was}."
    if incident.events > 1:
        text += f" It came {incident.events} times."
    text += f" Read in that time: {shards(incident.shards, 5)}." if incident.shards else ""
    return text + (f" Batches around it: {'; '.join(map(_batch, incident.batches))}." if incident.batches else "")


def _batch(read: Read) -> str:
    ids, more, max_len, loss_tokens = read.batch
    left = len(ids[_NAMED:]) + more
    named = f"ids {', '.join(short(each, 28) for each in ids[:_NAMED])}" + (f" and {left} more" if left else "")
    told = [named] if ids else []
    told += [f"longest {max_len:,.0f}"] if max_len is not None else []
    told += [f"{loss_tokens:,.0f} tokens in the loss"] if loss_tokens is not None else []
    return f"step {read.step:,} ({', '.join(told)})"


def _why(incident: Incident) -> str:
    evidence = "; ".join(_evidence(reading) for reading in incident.evidence[:3])
    return f"Noticed at step {incident.detected:,}" + (f": {evidence}." if evidence else ".")


def _evidence(reading: Reading) -> str:
    limit = f"against a threshold of {reading.threshold:.4g}"
    said = f"{reading.detector} read {reading.signal} {reading.value:.4g} {limit}"
    return f"{said} ({reading.detail})" if reading.detail else said


def _done(actions: Sequence[Ordered], why: str) -> str:
    if not actions:
        return f"Nothing: {why}." if why else ""
    taken = [action_phrase(o.action) + (f" (failed: {o.detail})" if o.status == "failed" else "") for o in actions]
    begin = f"At step {actions[0].action.step:,}: " if actions[0].applied else "Not done, only decided: "
    back = next((o.action.why for o in actions if o.action.verb == "rollback"), "")
    return f"{begin}{', '.join(taken)}." + (f" Target chosen: {back}." if back else "")


def _confirmed(actions: Sequence[Ordered]) -> str:
    verdicts = [o for o in actions if o.status in ("confirmed", "refuted", "unverifiable")]
    return " ".join(f"{_capital(_NOUNS.get(o.action.verb, o.action.verb))} {o.status}: {o.detail}." for o in verdicts)


def _now(story: Story, incident: Incident, actions: Sequence[Ordered]) -> str:
    if story.state.status == "held" and any(o.action.verb == "hold" for o in actions):
        return "The run waits for a person. Nothing of the job runs; every checkpoint, log and record was kept."
    match incident.stage:
        case "closed" if any(o.applied and o.action.verb == "rollback" for o in actions):
            return "Over: the run passed the place with its level held."
        case "closed":
            return f"Over at step {incident.end:,}." if incident.end is not None else "Over."
        case "probation":
            return "Answered; on probation until the run has passed the place with its level held."
        case "acting":
            return "Being answered."
        case _:
            return "Still open."


def next_steps(story: Story) -> list[str]:
    """What a person can do where the run waits for one."""
    if story.state.status != "held":
        return []
    return [
        f"Look: orchestrate status {story.path}",
        "Mend the data, the code or the policy, whichever the incidents point to.",
        f"Go on: orchestrate ctl {story.path} release --why '...', then the same run command again.",
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
