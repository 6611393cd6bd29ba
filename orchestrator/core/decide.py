"""What to do. `decide` is `evolve`, then `plan` until it asks for nothing more.

Plan reads levels, not edges: it may be called again after a crash and asks for what is still missing.
The policy speaks in deltas; what is planned here is absolute.
"""

from orchestrator.core.evolve import evolve
from orchestrator.core.facts import Action, Decision, Fact
from orchestrator.core.health import newest_complete
from orchestrator.core.operator import answer
from orchestrator.core.policy import SEVERITIES, Mode, Response
from orchestrator.core.rules import Rules
from orchestrator.core.state import FINAL, Incident, Situation, State, find
from orchestrator.core.storage import Broken, broken_start, crowded, failed_start, no_room_until

ALIKE = 2  # the same failure at the same step so many times is not retried unchanged
PASSIVE = frozenset({"record", "notify", "checkpoint", "skip"})  # a ladder that ends in these never ends
ENDS_ATTEMPT = frozenset({"rollback", "relaunch", "hold"})
HARMLESS = frozenset({"record", "notify", "dump", "skip"})  # nobody needs to say yes to these


def decide(rules: Rules, state: State, fact: Fact) -> tuple[State, tuple[Decision, ...]]:
    """The next state and what was decided on the way to it."""
    return settle(rules, evolve(rules, state, fact))


def settle(rules: Rules, state: State) -> tuple[State, tuple[Decision, ...]]:
    """Every decision that a state asks for, taken: also what a recovered supervisor still has to decide."""
    decisions: list[Decision] = []
    while (decision := plan(rules, state)) is not None:
        decisions.append(decision)
        state = evolve(rules, state, decision)
    return state, tuple(decisions)


def plan(rules: Rules, state: State) -> Decision | None:
    """The next decision that the levels ask for; None when there is nothing to decide."""
    if state.status == "running" and not state.waiting and not state.stop and not state.orders:
        return None
    if state.status in FINAL or state.pending:
        return None
    if state.status == "starting" and not state.attempt:
        return _own(state, "launch", "the run begins")
    if state.stop and state.status == "running":
        return _own(state, "stop", state.stop)
    if state.status == "relaunching" and (broken := broken_start(state)) is not None:
        return _in_time(state, _instead(rules, state, broken))
    if state.orders and state.status == "running":
        actions, why = answer(rules, state, state.orders[0])
        return _numbered(state, 0, actions, "act", why)._replace(order=True)
    if state.waiting:
        incident = _worst(state)
        if (until := no_room_until(state)) is not None and incident.cls == "disk_full":
            return None if state.time < until else _held(state, incident, "act", crowded(state))
        return _in_time(state, _answer(rules, state, incident))
    if state.status == "relaunching" and not state.proposed:
        goes_on = state.why.startswith(("released", "resumed", "once more"))
        own = _own(state, "relaunch" if goes_on else "hold", state.why or failed_start(state), rules)
        return _in_time(state, own)
    return None


def _in_time(state: State, decision: Decision) -> Decision | None:
    """A job that ended comes back only when its backoff is over; what does not start it needs no patience."""
    early = state.status == "relaunching" and state.time < state.not_before
    return None if early and any(action.verb == "relaunch" for action in decision.actions) else decision


def _worst(state: State) -> Incident:
    """The incident to answer first."""
    waiting = [incident for number in state.waiting if (incident := find(state, number)) is not None]
    return max(waiting, key=lambda incident: (SEVERITIES.index(incident.severity), -incident.id))


def _own(state: State, what: str, why: str, rules: Rules | None = None) -> Decision:
    """A decision that no incident caused."""
    base = Action(0, "stop", 0, state.attempt, state.step, why, save=state.preempted)
    if what == "launch":
        base = base._replace(verb="relaunch", to_step=0)
    elif what == "relaunch" and rules is not None:
        target = newest_complete(rules, state)
        base = base._replace(verb="relaunch", to_step=target.step, path=target.path)
    elif what == "hold":
        base = base._replace(verb="hold", why=why or "the policy stopped the job and did not relaunch it")
    return _numbered(state, 0, (base,), "act", why)


def _answer(rules: Rules, state: State, incident: Incident) -> Decision:
    """The rung that an incident's class, severity and history ask for."""
    ladder, give_up = _ladder(rules, state, incident)
    mode: Mode = "act" if incident.id in state.approved else rules.policy.mode
    if give_up:
        return _held(state, incident, mode, give_up)
    if not ladder:
        return _numbered(state, incident.id, (), mode, f"{incident.cls}: nothing to do", incident.rung + 1)
    if incident.rung >= len(ladder) and all(response.verb in PASSIVE for response in ladder[-1]):
        return _rung(rules, state, incident, ladder[-1], mode)
    if incident.rung >= len(ladder):
        why = f"{incident.cls} came back after all {len(ladder)} rungs of its ladder"
        return _held(state, incident, mode, why)
    return _rung(rules, state, incident, ladder[incident.rung], mode)


def _ladder(rules: Rules, state: State, incident: Incident) -> tuple[tuple[tuple[Response, ...], ...], str]:
    """The ladder of an incident, or why there is none left."""
    spikes, failures = rules.policy.spikes, rules.policy.failures
    if incident.cls == "nonfinite" and incident.skipped and incident.stage in ("open", "closed"):
        return ((Response(verb="skip"),),), ""
    if incident.cls == "persistent" and incident.minor:
        return spikes.persistent.minor.respond, ""
    if (spike := getattr(spikes, incident.cls, None)) is not None:
        ladder: tuple[tuple[Response, ...], ...] = spike.respond
        return ladder, ""
    failure = getattr(failures, incident.cls, None)
    if failure is None:
        return (), ""
    count = dict(state.counts.failures).get(incident.cls, 0)
    if count > failure.max:
        return (), f"{incident.cls} {count} times without progress between, the policy allows {failure.max}"
    if incident.alike >= ALIKE:
        return (
            (),
            f"{incident.cls} again at step {incident.onset} in the same way: a retry unchanged would meet it again",
        )
    return (failure.respond,) * (incident.rung + 1) if failure.respond else (), ""


def _rung(rules: Rules, state: State, incident: Incident, rung: tuple[Response, ...], mode: Mode) -> Decision:
    """One rung as absolute actions; a refusal that needs a person becomes hold."""
    draft: tuple[Action, ...] = ()
    notes = []
    for response in rung:
        planned = rules.planners[response.verb](Situation(rules, state, incident, draft), response)
        if isinstance(planned, Action):
            draft = (*draft, planned)
        elif planned.hold:
            return _held(state, incident, mode, planned.why)
        else:
            notes.append(f"{response.verb} left out: {planned.why}")
    running = state.status == "running"
    if running and any(action.verb in ENDS_ATTEMPT for action in draft):
        draft = _stop_first(state, incident, draft)
    why = "; ".join([f"{incident.cls} ({incident.severity}): {incident.reason}", *notes])
    return _numbered(state, incident.id, draft, mode, why, incident.rung + 1)


def _instead(rules: Rules, state: State, broken: Broken) -> Decision:
    """The same rung's way back once more, now that its checkpoint is known to be broken: to the next one."""
    ladder, _ = _ladder(rules, state, broken.incident)
    rung = ladder[min(broken.incident.rung, len(ladder)) - 1] if ladder else ()
    back = tuple(each for each in rung if each.verb in ("rollback", "relaunch")) or (Response(verb="relaunch"),)
    decision = _rung(rules, state, broken.incident, back, "act")
    return decision._replace(rung=broken.incident.rung, why=f"{broken.why}; {decision.why}")


def _stop_first(state: State, incident: Incident, draft: tuple[Action, ...]) -> tuple[Action, ...]:
    """What looks at the living job goes first, then the job is ended, then the rest."""
    stop = Action(0, "stop", incident.id, state.attempt, state.step, f"for incident {incident.id}")
    looks = tuple(action for action in draft if action.verb in ("dump", "record", "notify"))
    return (*looks, stop, *(action for action in draft if action not in looks and action.verb != "stop"))


def _held(state: State, incident: Incident, mode: Mode, why: str) -> Decision:
    hold = Action(0, "hold", incident.id, state.attempt, state.step, why)
    actions = _stop_first(state, incident, (hold,)) if state.status == "running" else (hold,)
    return _numbered(state, incident.id, actions, mode, why, incident.rung + 1)


def _numbered(
    state: State, incident: int, actions: tuple[Action, ...], mode: Mode, why: str, rung: int = 0
) -> Decision:
    """A decision whose actions have their numbers."""
    if mode == "propose" and all(action.verb in HARMLESS for action in actions):
        mode = "act"
    begin = state.actions[-1].action.id + 1 if state.actions else 1
    numbered = tuple(action._replace(id=begin + i) for i, action in enumerate(actions))
    return Decision(state.decisions + 1, incident, numbered, mode, state.time, why, rung)
