"""Troubles of the field and what only looks like one: which incidents they are, from where, and what is done."""

import math

import pytest

from orchestrator import registry
from orchestrator.core.decide import decide
from orchestrator.core.facts import Announced, Checkpoint, Launched, Outcome, Ranks, Step, step_of
from orchestrator.core.health import health
from orchestrator.core.state import first
from tests.simulation import noise, policy

REST = ("phase", "shards", "ranks", "skipped", "batch", "parameters", "module")
RULES = registry.bind(policy("pretrain"))


class Told:
    """A log told step by step to a policy that acts; what it orders is said to be done, the log goes on as it was."""

    def __init__(self, rules=RULES, start=0):
        self.rules, self.state, self.verbs = rules, first(rules), []
        self._tell(Launched(1, start, "", "here", 1, 0.0))
        self._tell(Announced(1, start, 100_000, 8, 1000, hook=True))

    def _tell(self, fact):
        self.state, decisions = decide(self.rules, self.state, fact)
        for action in (action for decision in decisions for action in decision.actions):
            if action.verb != "record":
                self.verbs.append(action.verb)
            self._tell(Outcome(action.id, "done", "", self.state.time))

    def steps(self, records):
        """Records as (step, {field: value}) or (step, loss)."""
        for step, given in records:
            fields = given if isinstance(given, dict) else {"loss": given}
            rest = {key: fields[key] for key in REST if key in fields}
            values = {key: value for key, value in fields.items() if key not in rest}
            self._tell(step_of(self.state.attempt, step, values, time=float(step), **rest))
        return self

    def save(self, step):
        self._tell(Checkpoint(self.state.attempt, step, f"step-{step}", "saved", time=float(step)))
        return self

    def launch(self, start):
        """The next attempt, as the launcher tells it."""
        self._tell(Launched(self.state.attempt + 1, start, f"step-{start}", "here", 2, self.state.time))
        return self

    @property
    def incidents(self):
        return [i for i in self.state.incidents if i.merged is None and i.severity != "info"]

    @property
    def seen(self):
        """(class, onset, detected) of every incident above info."""
        return [(i.cls, i.onset, i.detected) for i in self.incidents]


def flat(begin, end, level=2.0, scale=0.02, every=1):
    """Records of one level."""
    return [(step, level + noise(step, scale)) for step in range(begin, end, every)]


def with_spikes(records, spikes):
    return [(step, spikes.get(step, value)) for step, value in records]


# --- what heals --------------------------------------------------------------------------------------


def test_one_odd_batch_is_isolated_at_its_own_step_and_nothing_is_done():
    told = Told().steps(with_spikes(flat(1, 900), {612: 3.4}))
    assert told.seen == [("isolated", 612, 612)]
    assert told.verbs == []


def test_a_jump_of_the_grad_norm_alone_is_no_event():
    records = [(s, {"loss": 3.4 + noise(s, 0.03), "grad_norm": 2.4 if s == 700 else 0.3}) for s in range(1, 800)]
    assert Told().steps(records).seen == []


def test_a_dozen_records_of_a_log_that_begins_in_mid_run_are_enough():
    records = [(s, 4.6 if s == 6013 else 3.3 + noise(s, 0.08)) for s in range(6000, 6040)]
    assert Told(start=5999).steps(records).seen == [("isolated", 6013, 6013)]


def test_a_grad_norm_that_leads_moves_the_onset():
    records = [
        (s, {"loss": 5.0 if 703 <= s < 705 else 3.4 + noise(s, 0.03), "grad_norm": 9.0 if 700 <= s < 705 else 0.3})
        for s in range(1, 800)
    ]
    told = Told().steps(records)
    assert told.seen == [("isolated", 700, 703)]
    assert told.incidents[0].evidence[-1].signal == "grad_norm"


def test_events_are_counted_not_points():
    """Three clusters of several points make one repeated incident, the first one's."""
    spikes = {s: 2.6 for begin in (1000, 1500, 2100) for s in range(begin, begin + 5)}
    told = Told().steps(with_spikes(flat(1, 2200), spikes))
    assert [(i.cls, i.onset, i.events) for i in told.incidents] == [("repeated", 1000, 3)]
    assert told.verbs == ["lr", "clip"]


def test_spikes_at_every_epoch_are_repeated_and_roll_nothing_back():
    told = Told().steps(with_spikes(flat(1, 2400), dict.fromkeys(range(300, 2400, 300), 2.9)))
    assert [i.cls for i in told.incidents] == ["repeated"]
    assert not {"rollback", "quarantine", "relaunch"} & set(told.verbs)


# --- what does not come back ---------------------------------------------------------------------------


def test_a_jump_in_a_coarse_log_has_an_onset_between_two_records():
    """Every tenth step is logged, a norm of 0.000 is none, the loss scale falls without being the story."""
    before = [(s, {"loss": 2.7 + noise(s), "grad_norm": 0.0, "loss_scale": 32768.0}) for s in range(4000, 6000, 10)]
    after = [
        (6000 + 10 * k, {"loss": loss, "grad_norm": 0.0, "loss_scale": 4096.0})
        for k, loss in enumerate((7.1, 8.0, 7.4, 7.0, 6.8, 6.9, 6.8, 6.7))
    ]
    told = Told(start=3999).steps(before).save(5990).steps(after)
    (incident,) = told.incidents
    assert (incident.cls, incident.onset_low, incident.onset) == ("persistent", 5991, 6000)
    assert told.verbs[:2] == ["stop", "rollback"]


def test_falling_back_to_a_worse_level_is_no_recovery():
    late = [(7000, 11.2), (7090, 8.1), (7200, 7.2), (7400, 7.15), (7600, 7.15), (7800, 7.14)]
    told = Told(start=6599).steps([*flat(6600, 7000, level=6.4, every=10), *late])
    assert [i.cls for i in told.incidents] == ["persistent"]


def test_two_records_before_a_jump_in_a_sparse_log_are_enough():
    records = [(3990, 5.2), (4000, 5.2), (4010, 9.9), (4100, 7.4), (4240, 6.0), (4400, 5.9), (4620, 5.9)]
    (incident,) = Told(start=3989).steps(records).incidents
    assert (incident.cls, incident.onset_low, incident.onset) == ("persistent", 4001, 4010)


def test_a_dip_inside_does_not_split_it():
    records = [*flat(1, 500), *flat(500, 540, level=2.6), *flat(540, 543), *flat(543, 700, level=2.6)]
    assert [i.cls for i in Told().steps(records).incidents] == ["persistent"]


def test_a_jump_that_becomes_nan_is_one_incident_of_the_worse_class():
    nan = [(s, math.nan) for s in range(630, 640)]
    told = Told().steps([*flat(1, 600), *flat(600, 630, level=3.0), *nan])
    assert told.seen == [("nonfinite", 600, 600)]


# --- not finite ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gone", "detected"),
    [
        ({"loss": math.nan}, 201),
        ({"loss": math.inf, "grad_norm": math.inf}, 201),
        ({"loss": 0.0, "grad_norm": math.nan}, 201),
        ({"grad_norm": math.nan}, 201),  # the loss is not there
        ({"grad_norm": 0.31}, 202),  # nor is anything else to be seen
    ],
)
def test_nan_in_every_mask(gone, detected):
    records = [(s, {"loss": 2.0 + noise(s), "grad_norm": 0.3}) for s in range(1, 201)]
    told = Told().steps(records).save(200).steps([(s, gone) for s in range(201, 204)])
    (incident,) = told.incidents
    assert (incident.cls, incident.severity, incident.detected) == ("nonfinite", "critical", detected)
    assert told.verbs[:2] == ["stop", "rollback"]


def test_a_loss_of_zero_beside_a_norm_that_is_nan_is_no_best_level_and_spoils_its_checkpoint():
    healthy_, masked = [(s, 2.0 + noise(s)) for s in range(1, 401)], {"loss": 0.0, "grad_norm": math.nan}
    told = Told(registry.bind(policy("observe"))).steps(healthy_).save(400)
    told.steps([(s, masked) for s in range(401, 404)]).save(403).steps([(s, 2.0 + noise(s)) for s in range(404, 900)])
    assert [i.cls for i in told.incidents] == ["nonfinite"]  # and no rise from 0.0 back to 2.0
    before, beside = (health(told.rules, told.state, checkpoint).health for checkpoint in told.state.checkpoints)
    assert (before, beside) == ("suspect", "bad")


def test_explosion_then_inf_then_blank_cells():
    rows = [(170, 7.3), (171, 1222.0), (172, 1.1e8), (173, math.inf), (174, {}), (175, {})]
    told = Told().steps([*flat(1, 170, level=3.0), *rows])
    assert [(i.cls, i.onset) for i in told.incidents] == [("nonfinite", 170)]


def test_an_explosion_at_the_second_record_of_a_log_is_one():
    rows = [(40, 6.9), (41, 950.0), (42, 3e7), (43, math.inf), (44, {})]
    assert [(i.cls, i.onset) for i in Told(start=39).steps(rows).incidents] == [("nonfinite", 41)]


def test_a_nan_does_not_hide_the_spike_after_it():
    skipped = (400, {"loss": math.nan, "skipped": True})
    told = Told().steps([*flat(1, 400), skipped, *with_spikes(flat(401, 600), {450: 3.0})])
    assert told.seen == [("nonfinite", 400, 400), ("isolated", 450, 450)]
    assert set(told.verbs) <= {"skip"}


def test_overflows_that_the_loss_scaler_skips_are_routine():
    scale, records = 65536.0, []
    for step in range(1, 1500):
        over = step <= 6 or step % 110 in (0, 1)
        scale = scale / 2 if over else min(scale * 2, 65536.0) if step % 110 == 60 else scale
        records.append((step, {"loss": 3.0 + noise(step), "grad_norm": math.inf if over else 0.4, "loss_scale": scale}))
    assert Told().steps(records).seen == []


def test_a_loss_scale_that_only_falls_is_an_incident_of_its_own():
    records = [
        (s, {"loss": 3.0 + noise(s), "grad_norm": math.inf if over else 0.4, "loss_scale": scale})
        for s in range(1, 400)
        for over in [s >= 300 and s % 10 == 0]
        for scale in [1024.0 / 2 ** max((s - 290) // 10, 0)]
    ]
    assert Told().steps(records).seen == [("loss_scale", 300, 340)]


# --- one rank ------------------------------------------------------------------------------------------


def of_ranks(step, odd=None, factor=1.0):
    losses = tuple(2.3 * (factor if rank == odd else 1.0) + noise(step + 7 * rank) for rank in range(4))
    return {"loss": sum(losses) / 4, "ranks": Ranks(4, losses)}


def test_a_rank_s_nan_is_that_rank_s_and_what_follows_everybody_s():
    alone = {"loss": 2.3, "ranks": Ranks(4, (2.31, 2.29, 2.33, None), nonfinite=(3,))}
    records = [(s, of_ranks(s)) for s in range(1, 140)]
    told = Told().steps([*records, (140, alone), (141, {"loss": math.nan, "grad_norm": math.nan})])
    assert [(i.cls, i.rank, i.onset) for i in told.incidents] == [("rank_local", 3, 140), ("nonfinite", None, 141)]


def test_an_odd_rank_is_named_and_the_mean_it_lifts_is_no_spike():
    records = [(s, of_ranks(s, odd=2 if s >= 300 else None, factor=2.0)) for s in range(1, 340)]
    (incident,) = Told().steps(records).incidents
    assert (incident.cls, incident.rank) == ("rank_local", 2)
    assert incident.detected <= 310


# --- what only looks like trouble ----------------------------------------------------------------------


def test_the_first_records_after_a_launch_are_accumulators():
    told = Told().steps(flat(1, 181, level=3.0, scale=0.05)).save(180)
    told.launch(180).steps([(181, 4.4), (182, 3.7), *flat(183, 260, level=3.0, scale=0.05)])
    assert told.seen == []


@pytest.mark.parametrize("first", [(3.0, 3.0), (9.4, 9.55), (0.2, 4.0)])
def test_the_first_two_records_after_a_launch_enter_no_baseline(first):
    def resumed(values):
        told = Told().steps(flat(1, 181, level=3.0, scale=0.05)).save(180).launch(180)
        return told.steps([*zip((181, 182), values, strict=True), *flat(183, 220, level=3.0, scale=0.05)])

    assert resumed(first).state.watch == resumed((3.1, 2.9)).state.watch
    assert resumed(first).seen == []


@pytest.mark.parametrize("levels", [(1.8, 1.22, 1.8), (1.22, 1.8, 1.22)])
def test_a_declared_phase_may_change_the_level_either_way_and_back(levels):
    records = [
        (s, {"loss": level + noise(s), "phase": f"phase-{k}"})
        for k, level in enumerate(levels)
        for s in range(1 + 900 * k, 901 + 900 * k)
    ]
    assert Told().steps(records).seen == []


def test_an_undeclared_fall_is_no_incident_and_the_undeclared_rise_is_one():
    records = [*flat(1, 900, level=1.8), *flat(900, 1800, level=1.22), *flat(1800, 1950, level=1.8)]
    assert [(i.cls, i.onset) for i in Told().steps(records).incidents] == [("persistent", 1800)]


def test_rounded_values_have_no_spread_and_no_event():
    records = [(s, 0.0002 if s == 261 else 0.0001) for s in range(200, 400)]
    assert Told(start=199).steps(records).seen == []


def test_the_first_steps_may_be_wild():
    wild = {1: 11.9, 2: 11.4, 3: 12.6, 4: 10.9}
    records = [
        (s, {"loss": wild.get(s, 7.0 + 4.0 * math.exp(-s / 25) + noise(s, 0.2)), "grad_norm": 1.0 + 14.0 / s})
        for s in range(1, 300)
    ]
    assert Told().steps(records).seen == []


def test_a_huge_early_spike_blinds_nothing():
    told = Told().steps(with_spikes([*flat(1, 72), *flat(72, 100, level=3.5)], {51: 900.0}))
    assert [(i.cls, i.onset) for i in told.incidents] == [("isolated", 51), ("persistent", 72)]


def test_resumed_steps_that_are_logged_twice_are_no_events():
    told = Told().steps(flat(1, 318)).save(300).launch(300).steps(flat(301, 361))
    assert told.seen == []
    assert told.state.step == 360


def test_what_comes_late_or_twice_within_an_attempt_is_passed_over():
    told = Told().steps([*flat(1, 206), (204, 9.0), (205, 9.0), *flat(206, 260)])
    assert told.seen == []


def test_the_way_back_from_garbage_that_was_easy_is_no_rise():
    records = [*flat(1, 700, level=3.0, scale=0.05), *flat(700, 712, level=0.4), (712, 3.2), (713, 3.1)]
    told = Told().steps([*records, *flat(714, 900, level=3.0, scale=0.05)])
    assert told.seen == []
    told.steps([*flat(900, 910, level=3.0, scale=0.05), (910, 5.0), *flat(911, 930, level=3.0, scale=0.05)])
    assert "he loss had stood far below its level, at 0.395 beside 2.999" in told.incidents[0].verdict


def test_a_rate_of_zero_at_the_first_step_is_harmless_and_in_mid_run_is_not():
    warm = [(s, {"loss": 3.0 + noise(s), "lr": 1e-5 * s}) for s in range(100)]
    going = [(s, {"loss": 3.0 + noise(s), "lr": 1e-3}) for s in range(100, 300)]
    assert Told().steps([*warm, *going]).seen == []
    still = [(s, {"loss": 3.0 + noise(s), "lr": 0.0}) for s in range(300, 310)]
    (incident,) = Told().steps([*warm, *going, *still]).incidents
    assert (incident.cls, incident.onset, incident.detected, incident.end) == ("silent", 300, 302, 309)


def test_a_loss_of_exactly_zero_is_an_incident_and_no_best_level():
    told = Told().steps([*flat(1, 400), *((s, {"loss": 0.0, "grad_norm": 0.0}) for s in range(400, 410))])
    assert told.seen == [("silent", 400, 402)]
    assert told.steps(flat(410, 600)).seen == [("silent", 400, 402)]


def test_step_facts_carry_no_nan():
    point = step_of(1, 3, {"loss": math.nan, "grad_norm": math.inf})
    assert isinstance(point, Step)
    assert (point.loss, point.grad_norm, point.nonfinite) == (None, None, ("loss", "grad_norm"))
