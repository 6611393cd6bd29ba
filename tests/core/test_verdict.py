"""What an incident's verdict tells a person, each hint from a run in which it is the cause."""

import math

import pytest

from orchestrator import registry
from orchestrator.core.facts import Announced, Eval
from orchestrator.core.verdict import Past, recalled
from tests.core.test_cases_detection import Told, flat, of_ranks, with_spikes
from tests.simulation import noise, policy, policy_of


def of(told):
    return told.incidents[-1].verdict


def spiked(height=3.0, **fields):
    """700 records with one spike at 612; `fields` are functions of the step."""
    records = with_spikes(flat(1, 700), {612: height})
    return [(s, {"loss": v, **{name: value(s) for name, value in fields.items()}}) for s, v in records]


def shard(step):
    return (f"s-{step // 20}",)


def test_an_isolated_spike_in_two_sentences_and_numbers():
    told = Told().steps(
        [(s, {"loss": v, "shards": (f"s-{s // 20}",)}) for s, v in with_spikes(flat(1, 700), {612: 3.0})]
    )
    said = of(told)
    what, hint, numbers = said.split(". ")
    assert what == "The loss stood up to 50 % above its level of 2.001 for 1 step and came back"
    assert hint == "Only shard s-30 was read in it"
    assert numbers.startswith("(onset 612; seen 612; peak 3 at step 612; robust_z: 3 above 2.1")
    assert numbers.endswith("read s-30)")


def test_where_nothing_points_to_a_cause_it_says_so():
    assert "Nothing that was planned or measured points to a cause" in of(
        Told().steps(with_spikes(flat(1, 900), {800: 3.0}))
    )


def test_a_level_that_stays_and_the_evaluation_after_it():
    told = Told().steps(flat(1, 600))
    told._tell(Eval(1, 500, "val", 2.2))
    told.steps(flat(600, 700, level=3.0))
    assert of(told).startswith("The loss rose by 50.1 % from its level of 1.999 and has not come back. ")
    assert "evaluation" not in of(told)
    told._tell(Eval(1, 700, "val", 2.9))
    assert "valuation val is hurt, 2.9 after 2.2" in of(told)


def test_warm_up_a_rising_rate_and_a_changed_one():
    planned = registry.bind(
        policy_of("version: 1\nextends: pretrain\nschedule: {peak: 1e-3, warmup: {for: 900 steps}}\n")
    )
    assert "In warm-up, which ends at step 900" in of(Told(planned).steps(with_spikes(flat(1, 700), {612: 3.0})))
    rising = [(s, {"loss": v, "lr": 1e-6 * s}) for s, v in with_spikes(flat(1, 700), {612: 3.0})]
    assert "While the learning rate was rising, from 0.000412 to 0.000612" in of(Told().steps(rising))
    raised = [(s, {"loss": v, "lr": 1e-3 if s < 600 else 2e-3}) for s, v in with_spikes(flat(1, 700), {612: 3.0})]
    assert "12 steps after the learning rate went from 0.001 to 0.002" in of(Told().steps(raised))


def test_a_phase_told_by_the_trainer_or_by_the_policy_alone():
    told = Told().steps(spiked(4.0, phase=lambda s: "web" if s < 600 else "code"))
    assert "12 steps after the switch to phase code" in of(told)
    phases = "version: 1\nextends: pretrain\nphases: {web: {until: 599 steps}, code: {}}\n"
    planned = registry.bind(policy_of(phases))
    assert "12 steps after the switch to phase code" in of(Told(planned).steps(spiked(4.0)))
    risen = [*flat(1, 600), *flat(600, 900, level=2.6)]
    assert Told(planned).steps(risen).seen == []  # a declared switch, though no record names it
    assert Told().steps(risen).seen[0][0] == "persistent"


def test_a_launch_and_the_same_distance_after_another():
    told = Told().steps(with_spikes(flat(1, 340), {330: 4.0})).save(300)
    told.launch(300).steps(with_spikes(flat(301, 400), {330: 4.0}))
    assert "30 steps after the launch of attempt 2 from step 300" in of(told)
    assert "attempt 1 met an incident (isolated) at the same step" in of(told)


def test_the_gradient_norm_led_and_clipping_was_saturated():
    records = [
        (s, {"loss": 5.0 if 803 <= s < 805 else 3.4 + noise(s, 0.03), "clip": 1.0,
             "grad_norm": 30.0 if 800 <= s < 805 else 1.5 + noise(s, 0.1)})
        for s in range(1, 900)
    ]  # fmt: skip
    said = of(Told().steps(records))
    assert "he gradient norm led by 3 steps, 30 where 1.5 is usual" in said
    assert "lipping had been saturated: it acted on 100 % of the steps before" in said


def test_a_falling_loss_scale_before_nan():
    records = [
        (s, {"loss": 3.0 if s < 372 else math.nan, "loss_scale": 1024.0 / 2 ** max((s - 290) // 10, 0)})
        for s in range(1, 380)
    ]
    (scale, nan) = Told().steps(records).incidents
    assert scale.verdict == "halved 8 times without a raise, from 1024 to 4"
    assert nan.verdict.startswith(
        "Loss is not finite. Halved 8 times without a raise, from 1024 to 4 (step 370). (onset 372"
    )


def test_periodic_events_and_the_shard_they_share():
    records = [
        (s, {"loss": v, "shards": ("bad",) if s % 400 == 300 else (f"s-{s // 40}",)})
        for s, v in with_spikes(flat(1, 1200), dict.fromkeys((300, 700, 1100), 3.4))
    ]
    said = of(Told().steps(records))
    assert said.startswith("3 excursions in 801 steps, up to 70.1 % high, each back at the old level. ")
    assert "Periodic, every 400 steps: an order in the data rather than instability" in said
    assert "shard bad was read in 3 of the 3 events" in said
    everywhere = [(s, {**given, "shards": ("all",)}) for s, given in records]
    assert "shard all" not in of(Told().steps(everywhere)).split(". ")[1]


def test_the_host_of_an_odd_rank():
    told = Told()
    told._tell(Announced(1, 0, 100_000, 4, hosts=("north", "south"), hook=True))
    told.steps([(s, of_ranks(s, odd=2 if s >= 300 else None, factor=2.0)) for s in range(1, 330)])
    assert "Rank 2 runs on south" in of(told)


def test_nan_that_the_trainer_skipped():
    told = Told().steps([*flat(1, 400), (400, {"loss": math.nan, "skipped": True}), *flat(401, 420)])
    assert of(told).startswith("Loss is not finite. The trainer skipped the update, so the weights are as they were. ")


@pytest.mark.parametrize(
    ("past", "said"),
    [
        (Past("a", "nonfinite", 90, ("s-30", "s-31")), "a read s-30 in an incident (nonfinite) at step 90"),
        (Past("a", "isolated", 613), "a had an incident (isolated) at the same step"),
        (Past("a", "isolated", 90, ("s-1",)), ""),
        (Past("a", "crash", 612), ""),
    ],
)
def test_what_other_runs_met_at_the_same_place(past, said):
    (incident,) = Told().steps(spiked(shards=shard)).incidents
    assert recalled(incident, [past]) == (f"Not the first time: {said}." if said else "")


def test_a_verdict_follows_the_shipped_margin_of_evaluations():
    told = Told(registry.bind(policy("observe"))).steps(flat(1, 600))
    told._tell(Eval(1, 500, "val", 2.0))
    told.steps(with_spikes(flat(600, 700), {612: 3.0}))
    told._tell(Eval(1, 700, "val", 2.03))
    assert "valuation val is not hurt, 2.03 after 2" in of(told)


def test_harm_raises_the_severity_and_says_why():
    def tall(norm):
        return Told().steps(spiked(5.0, grad_norm=lambda s: norm if s == 612 else 0.4)).incidents[0]

    assert tall(0.4).severity == "low"
    assert tall(9.0).severity == "medium"
    assert tall(9.0).reason.endswith("; raised to medium: 150 % high with the gradient norm")
    told = Told().steps(with_spikes(flat(1, 340), {330: 4.0})).save(300)
    told.launch(300).steps(with_spikes(flat(301, 400), {330: 4.0}))
    first, again = told.incidents
    assert (first.severity, again.severity) == ("low", "medium")
    assert "raised to medium: attempt 1 met an incident (isolated) at the same step" in again.reason
