"""What an incident keeps of the batches around its onset, and of where a value that is not finite came from."""

import math

import msgspec
import pytest

from orchestrator.core.facts import Batch
from orchestrator.core.state import BATCHES, MAX_INCIDENTS
from orchestrator.review.status import incidents_json
from orchestrator.store.snapshot import to_plain
from tests.core.test_cases_detection import Told, flat, with_spikes


def batch(step, **odd):
    return Batch(**{"ids": (f"doc-{step}", f"doc-{step}-b"), "max_len": 900.0, "loss_tokens": 40_000.0, **odd})


def reading(records, odd=None, every=batch):
    """Records that tell of their batches; `odd` maps a step to what is odd in its batch."""
    return [
        (s, {**(v if isinstance(v, dict) else {"loss": v}), "batch": every(s, **(odd or {}).get(s, {}))})
        for s, v in records
    ]


def steps_of(incident):
    return [read.step for read in incident.batches]


def test_a_spike_keeps_two_batches_before_it_and_three_from_it_on():
    (incident,) = Told().steps(reading(with_spikes(flat(1, 700), {612: 3.0}))).incidents
    assert steps_of(incident) == [610, 611, 612, 613, 614]
    assert incident.batches[2].batch == batch(612)
    assert "batch of step 612: doc-612, doc-612-b)" in incident.verdict


def test_the_onset_counts_not_the_step_where_it_was_seen():
    records = [(s, {"loss": v, "grad_norm": 4.0 if s >= 640 else 0.5}) for s, v in flat(1, 643)]
    told = Told().steps(reading(records + [(s, {"loss": v, "grad_norm": 5.0}) for s, v in flat(643, 660, level=3.0)]))
    incident = told.state.incidents[-1]
    assert incident.onset < incident.detected
    assert steps_of(incident)[:3] == [incident.onset - 2, incident.onset - 1, incident.onset]


def test_a_log_every_ten_steps_has_the_records_around():
    records = with_spikes(flat(10, 9000, every=10), {6120: 3.0})
    (incident,) = Told().steps(reading(records)).incidents
    assert steps_of(incident) == [6100, 6110, 6120, 6130, 6140]


def test_every_event_of_a_repeated_incident_is_there_and_they_are_bounded():
    told = Told().steps(reading(with_spikes(flat(1, 1000), {600: 3.0, 700: 3.0, 800: 3.0, 900: 3.0})))
    (incident,) = told.incidents
    assert incident.cls == "repeated"
    assert {600, 700, 800} <= set(steps_of(incident))
    assert len(incident.batches) <= 15


def test_a_step_that_is_not_finite_names_where_it_began():
    where = {"module": "blocks.7.attention", "parameters": ("blocks.7.attention.out.weight",)}
    told = Told().steps([*flat(1, 300), (300, {"loss": math.nan, "grad_norm": math.nan, **where})])
    (incident,) = told.incidents
    assert incident.cls == "nonfinite"
    assert (
        "Loss and grad_norm are not finite, first in the output of blocks.7.attention, in the gradients of "
        "blocks.7.attention.out.weight" in incident.verdict
    )


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"max_len": 8192.0}, "The batch of step 612 held a sample of 8192 tokens where 900 is usual"),
        ({"loss_tokens": 12.0}, "The batch of step 612 had 12 tokens that count where 40000 is usual"),
        ({"loss_tokens": 0.0}, "The batch of step 612 had 0 tokens that count where 40000 is usual"),
        ({"max_len": 1000.0, "loss_tokens": 39_000.0}, None),
    ],
)
def test_a_batch_of_odd_lengths_is_a_hint(odd, said):
    told = Told().steps(reading(with_spikes(flat(1, 700), {612: 3.0}), odd={612: odd}))
    verdict = told.incidents[-1].verdict
    assert (said in verdict) if said else ("The batch of step" not in verdict)


def test_status_tells_ids_and_lengths():
    odd = {"more": 30, "loss_tokens": 0.0}
    told = Told().steps(reading(with_spikes(flat(1, 700), {612: 3.0}), odd={612: odd}))
    (incident,) = incidents_json(told.state)
    assert incident["batches"][2] == {
        "step": 612, "ids": ["doc-612", "doc-612-b"], "ids_more": 30, "max_len": 900.0, "loss_tokens": 0.0,
    }  # fmt: skip


def test_the_state_holds_no_more_however_long_the_run():
    def size(state):
        return len(msgspec.json.encode(to_plain(state._replace(history=state.history.__class__()))))

    def many(step):
        return Batch(tuple(f"document-number-{step:06d}-{i:02d}" for i in range(16)))

    told = Told().steps(reading(flat(1, 500), every=many))
    first = size(told.state)
    assert len(told.state.batches) == BATCHES
    told.steps(reading(flat(500, 3000), every=many))
    assert len(told.state.batches) == BATCHES
    assert size(told.state) < 1.1 * first
    assert MAX_INCIDENTS * 15 * len(msgspec.json.encode(to_plain(many(1)))) < 16 << 20


def test_another_attempt_begins_with_no_batches():
    told = Told().steps(reading(flat(1, 100))).launch(50)
    assert told.state.batches == ()
    told.steps(reading(flat(51, 52)))
    assert [read.step for read in told.state.batches] == [51]


def test_a_trainer_that_tells_of_no_batches_has_none():
    (incident,) = Told().steps(with_spikes(flat(1, 700), {612: 3.0})).incidents
    assert incident.batches == ()
