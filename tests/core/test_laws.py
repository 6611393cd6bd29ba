"""The laws of the design, over random runs that go wrong in random ways."""

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from orchestrator import registry
from orchestrator.core.decide import decide
from orchestrator.core.evolve import evolve, fold
from orchestrator.core.facts import Checkpoint, Decision, Exited, Launched, Outcome, Step
from orchestrator.core.state import first
from tests.simulation import Job, given, policy

SHORT = {
    "checkpoints__healthy_after": "50 steps",
    "checkpoints__margin": "5 steps",
    "spikes__persistent__confirm__for": "20 steps",
    "limits__quarantine__max_share": "10%",
}
KINDS = ("none", "spike", "level", "nan", "crash", "hang", "stop", "zero", "raise")


@st.composite
def troubles(draw, kinds=KINDS):
    """What happens at some steps: (first step, length, kind, whether it comes back in every attempt)."""
    entry = st.tuples(st.integers(1, 260), st.integers(1, 60), st.sampled_from(kinds), st.booleans())
    plan = draw(st.lists(entry, max_size=4))

    def trouble(attempt, step):
        for begin, length, kind, again in plan:
            if begin <= step < begin + length and (attempt == 1 or again):
                match kind:
                    case "spike":
                        return {"loss": 9.0} if step == begin else None
                    case "level" | "raise":
                        return {"loss": 6.0 if kind == "level" else 3.0 + step / 100}
                    case "nan":
                        return {"loss": float("nan"), "grad_norm": float("inf"), "skipped": length % 2 == 0}
                    case "zero":
                        return {"loss": 0.0}
                    case "crash" | "hang" | "stop" if step == begin:
                        return kind
        return None

    return trouble


def broken(trouble):
    """Which checkpoints turn out to be broken when they are needed: repeatable, some in every second run."""
    odd = sum(trouble(1, step) is not None for step in range(1, 261)) % 2
    return lambda path: bool(odd) and int(path.rpartition("-")[2]) % 100 == 50


def run(trouble, **overrides):
    job = Job(registry.bind(policy(**SHORT, **overrides)), trouble, total=300, broken=broken(trouble))
    job.run(limit=4000)
    return job


@settings(max_examples=60, deadline=None)
@for_all(troubles())
def test_same_inputs_same_outputs(trouble):
    once, again = run(trouble), run(trouble)
    assert once.facts == again.facts
    assert once.state == again.state


@settings(max_examples=25, deadline=None)
@for_all(troubles(), st.randoms(use_true_random=False))
def test_recovered_state_equals_live_state_at_every_prefix(trouble, random):
    job = run(trouble)
    rules = job.rules
    live, replayed = first(rules), []
    for fact in given(job.facts):
        live, decided = decide(rules, live, fact)
        replayed += [fact, *decided]
        if random.random() < 0.02:
            assert fold(rules, replayed) == live
    assert fold(rules, replayed) == live


@settings(max_examples=60, deadline=None)
@for_all(troubles())
def test_replay_reproduces_every_recorded_decision(trouble):
    job = run(trouble)
    state, decisions = first(job.rules), []
    for fact in given(job.facts):
        state, decided = decide(job.rules, state, fact)
        decisions += decided
    assert decisions == [fact for fact in job.facts if isinstance(fact, Decision)]


@settings(max_examples=60, deadline=None)
@for_all(troubles())
def test_twice_equals_once(trouble):
    """A fact that a recovered supervisor tells again changes nothing."""
    job = run(trouble)
    state = first(job.rules)
    for fact in job.facts:
        state = evolve(job.rules, state, fact)
        if isinstance(fact, Step | Launched | Exited | Outcome | Checkpoint):
            assert evolve(job.rules, state, fact) == state


@settings(max_examples=60, deadline=None)
@for_all(troubles())
def test_no_sequence_of_facts_exceeds_a_budget(trouble):
    job = run(trouble, limits__relaunches="{max: 4, refill: never}", limits__rollbacks="{max: 2, per: 200 steps}")
    done = [a for d in job.decisions for a in d.actions]
    relaunches = [a for a in done if a.verb == "relaunch" and a.incident]
    assert len(relaunches) <= 4
    frontiers = job.state.counts.rollbacks
    assert all(sum(1 for g in frontiers if f - 200 < g <= f) <= 2 for f in frontiers)
    limits = job.rules.policy.limits
    assert all(a.factor >= limits.lr_floor for a in done if a.verb == "lr")
    assert len(job.state.levels.quarantine) <= 100


@settings(max_examples=60, deadline=None)
@for_all(troubles(kinds=("none", "spike", "level", "nan", "crash", "hang")))
def test_observe_never_acts_and_decides_first_as_act_does(trouble):
    observing, acting = run(trouble, mode="observe"), run(trouble)
    seen = [d for d in observing.decisions if d.incident]
    assert all(d.mode == "observe" for d in seen)
    assert not any(o.applied for o in observing.state.actions if o.action.incident)
    acted = [d for d in acting.decisions if d.incident]
    assert bool(seen) == bool(acted)
    if seen:
        assert seen[0] == acted[0]._replace(mode="observe")
