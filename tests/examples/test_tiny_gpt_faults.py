"""The example's faults: where they strike, and that they are gone when they should be."""

import os
import time

import pytest
import torch

from examples.tiny_gpt import faults as module
from examples.tiny_gpt.data import SHARD_STEPS, Batch, Corpus
from examples.tiny_gpt.faults import FAULTS, TOO_HIGH, Faults
from examples.tiny_gpt.model import CONTEXT, GPT

STEPS, SWITCH = 600, 240


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "ORCHESTRATE_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(0)
    return GPT(width=16, layers=1, heads=2)


def batch() -> Batch:
    rows = torch.arange(4 * (CONTEXT + 1)).view(4, -1) % 100
    return Batch(rows[:, :-1], rows[:, 1:], ("code-0001",))


def strikes(name: str, model: GPT, steps: range = range(1, STEPS + 1)) -> list[int]:
    """The steps whose batch a fault changes."""
    faults, optimizer, clean = Faults(name, STEPS, SWITCH), torch.optim.SGD(model.parameters(), lr=0.1), batch()
    return [s for s in steps if not torch.equal(faults.strike(s, clean, model, optimizer).text, clean.text)]


def test_none_changes_nothing(model: GPT) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert strikes("none", model) == []
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_bad_batch_is_one_step_of_noise(model: GPT) -> None:
    assert strikes("bad_batch", model) == strikes("default", model) == [300]
    spoilt = Faults("bad_batch", STEPS, SWITCH).strike(300, batch(), model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert torch.equal(spoilt.text[:, 1:], spoilt.following[:, :-1])
    assert spoilt.shards == ("code-0001",)
    assert 120 < spoilt.text.double().mean() < 135


@pytest.mark.parametrize("name", ["bad_shard", "default"])
def test_a_bad_shard_lasts_to_the_end_unless_left_out(name: str) -> None:
    clean, corpus = Corpus(STEPS, SWITCH), Corpus(STEPS, SWITCH)
    Faults(name, STEPS, corpus.switch).plant(corpus)
    first = next(step for step in range(1, STEPS) if corpus.find(step)[0].steps > SHARD_STEPS)
    bad = corpus.find(first)[0]
    assert first == 391
    assert {corpus.find(step)[0].name for step in range(first, STEPS + 1)} >= {bad.name}
    assert corpus.find(round(0.99 * STEPS))[0] is bad
    assert corpus.shards_total == clean.shards_total
    without = frozenset([bad.name])
    for step in (first, STEPS):
        assert corpus.find(step, without)[0].name == clean.find(step, without)[0].name
    assert bad.rows.double().mean() == pytest.approx(127.5, abs=0.5)


def test_a_bad_rank_is_the_last_one_for_a_while(model: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert strikes("bad_rank", model) == []
    monkeypatch.setenv("RANK", "1")
    assert strikes("bad_rank", model) == list(range(330, 366))


def test_a_rate_too_high_is_the_trainers_own_and_stays(model: GPT) -> None:
    faults, optimizer = Faults("lr_too_high", STEPS, SWITCH), torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, STEPS + 1):
        faults.strike(step, batch(), model, optimizer)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 if step <= SWITCH else 0.1 * TOO_HIGH)


def test_nan_gradients_last_for_one_step(model: GPT) -> None:
    faults, optimizer = Faults("nan", STEPS, SWITCH), torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step in range(328, 333):
        struck = faults.strike(step, batch(), model, optimizer)
        loss = model(struck.text, struck.following)
        loss.backward()
        assert torch.isfinite(loss)
        found.append(all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None))
        optimizer.zero_grad()
    assert found == [True, True, False, True, True]


@pytest.mark.parametrize(
    ("name", "attempt", "expected"), [("nan_weights", "1", True), ("nan_weights", "2", False), ("nan_again", "2", True)]
)
def test_nan_weights_come_back_only_where_asked(
    name: str, attempt: str, expected: bool, model: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATE_ATTEMPT", attempt)
    assert strikes(name, model, range(329, 332)) == []
    assert bool(torch.isnan(model(batch().text, batch().following))) is expected


@pytest.mark.parametrize(
    ("name", "attempt", "rank", "expected"),
    [
        ("crash", "1", "1", True),
        ("crash", "1", "0", False),
        ("crash", "2", "1", False),
        ("crash_again", "2", "1", True),
    ],
)
def test_a_crash_is_the_last_ranks(
    name: str, attempt: str, rank: str, expected: bool, model: GPT, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in (("ORCHESTRATE_ATTEMPT", attempt), ("RANK", rank), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(key, value)
    if expected:
        with pytest.raises(RuntimeError, match="at step 330"):
            strikes(name, model)
    else:
        assert strikes(name, model) == []


def test_a_hang_sleeps_for_ever_in_the_first_attempt(model: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise TimeoutError

    monkeypatch.setattr(time, "sleep", nap)
    with pytest.raises(TimeoutError):
        strikes("hang", model)
    monkeypatch.setenv("ORCHESTRATE_ATTEMPT", "2")
    assert strikes("hang", model) == []


def test_every_fault_has_a_name_and_says_what_it_is() -> None:
    assert set(FAULTS) == {
        "none", "default", "bad_shard", "bad_batch", "bad_rank", "lr_too_high", "nan", "nan_weights", "nan_again",
        "crash", "crash_again", "hang",
    }  # fmt: skip
    assert all(strike.__doc__ for strikes_ in FAULTS.values() for strike in strikes_)
    assert "ORCHESTRATE_ATTEMPT" not in os.environ
    assert module.BAD_SHARD == ("bad_shard", "default")
