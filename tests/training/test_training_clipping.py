"""The adaptive limit, and the guard's ways for frameworks of their own."""

import math

import pytest
import torch
from supervised import Attempt, Task, join

from orchestrator.core.policy import Adaptive as Rule
from orchestrator.core.policy import Clip, Policy
from orchestrator.training.clipping import LEARN, RISE, Adaptive
from orchestrator.training.hook import attach_unhooked


def learned(rule: Rule, norms: list[float]) -> Adaptive:
    found = Adaptive(rule)
    for norm in norms:
        found.add(norm)
    return found


def test_no_limit_before_enough_is_known() -> None:
    assert learned(Rule(), [1.0] * (LEARN - 1)).limit() is None
    assert learned(Rule(), [1.0] * LEARN).limit() == pytest.approx(1.0)


def test_the_mean_and_so_many_deviations() -> None:
    norms = [1.0, 3.0] * 50
    assert learned(Rule(sigmas=2.0), norms).limit() == pytest.approx(2.0 + 2.0 * 1.0, rel=0.05)


def test_a_spike_hardly_moves_the_limit_and_a_lasting_rise_is_followed() -> None:
    for rule in (Rule(quantile=0.9, within=50), Rule(sigmas=3.0, within=50)):
        before = [1.0 + 0.1 * math.sin(step) for step in range(100)]
        calm = learned(rule, before).limit()
        assert calm is not None
        spiked = learned(rule, [*before, 1e9]).limit()
        assert spiked is not None
        assert spiked < RISE * calm
        risen = learned(rule, [*before, *[10.0 * norm for norm in before]]).limit()
        assert risen is not None
        assert risen == pytest.approx(10.0 * calm, rel=0.1)


def test_the_smaller_limit_counts_and_is_reported(attempt: Attempt, task: Task) -> None:
    attempt.plan(Policy(clip=Clip(max_norm=50.0, adaptive=Rule(quantile=0.5))))
    run = join(task)
    for step in range(1, LEARN + 3):
        for parameter in task.model.parameters():
            parameter.grad = torch.full_like(parameter, 2.0)
        if step == LEARN + 1:
            task.model.weight.grad.mul_(100.0)  # type: ignore[union-attr]
        task.optimizer.step()
        run.step(step)
    messages = attempt.messages("step")
    usual = messages[0]["grad_norm"]
    assert [m["clip"] for m in messages[:LEARN]] == [50.0] * LEARN
    assert messages[LEARN]["clip"] == pytest.approx(usual)
    assert messages[LEARN]["grad_norm"] > 50.0


def test_a_norm_that_is_not_finite_is_not_learned_and_its_parameters_are_named(attempt: Attempt, task: Task) -> None:
    attempt.plan(Policy(clip=Clip(adaptive=Rule(quantile=0.5))))
    run = join(task)
    for step in range(1, LEARN + 3):
        for parameter in task.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        if step == 3:
            task.model.bias.grad.fill_(math.inf)  # type: ignore[union-attr]
        task.optimizer.step()
        run.step(step)
    third, last = attempt.messages("step")[2], attempt.messages("step")[-1]
    assert (third["nonfinite"], third["nonfinite_names"], third["skipped"]) == (1, ["bias"], True)
    assert last["clip"] == pytest.approx(math.sqrt(5.0))


def test_a_norm_handed_over_is_not_measured_again(attempt: Attempt, task: Task) -> None:
    attempt.plan(Policy(clip=Clip(max_norm=1.0)))
    run = join(task)
    guard = run.guard  # type: ignore[attr-defined]
    for parameter in task.model.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    before = task.model.bias.item()
    assert guard.limit == 1.0
    guard.hand(torch.tensor(7.0), 1.0)
    task.optimizer.step()
    run.step(1)
    (message,) = attempt.messages("step")
    assert (message["grad_norm"], message["clip"]) == (7.0, 1.0)
    assert task.model.bias.item() == pytest.approx(before - 0.1 * 2.0)


def test_a_handed_norm_that_is_not_finite_skips_the_update(attempt: Attempt, task: Task) -> None:
    run = join(task)
    before = task.weights()
    for parameter in task.model.parameters():
        parameter.grad = torch.full_like(parameter, math.nan)
    run.guard.hand(torch.tensor(math.nan), None)  # type: ignore[attr-defined]
    task.optimizer.step()
    run.step(1)
    assert torch.equal(task.weights(), before)
    assert attempt.messages("step")[0]["skipped"] is True


def test_an_update_that_a_loss_scaler_dropped_is_told_as_skipped(attempt: Attempt, task: Task) -> None:
    run = join(task)
    run.guard.hand(torch.tensor(math.inf), None)  # type: ignore[attr-defined]
    run.step(1)
    (message,) = attempt.messages("step")
    assert (message["grad_norm"], message["skipped"]) == ("inf", True)


def test_unhooked_gradients_are_looked_at_when_the_adapter_says_so(attempt: Attempt, task: Task) -> None:
    attempt.plan(Policy(clip=Clip(max_norm=1e-3)))
    attempt.direct(cuts=[[0.5, 0, None, None]])
    run = attach_unhooked(task.optimizer, task.model)
    run.begin(0, total=2)
    before = task.model.bias.item()

    def closure() -> torch.Tensor:
        task.optimizer.zero_grad()
        for parameter in task.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        run.guard.judge(task.optimizer)  # type: ignore[attr-defined]
        return torch.tensor(1.0)

    task.optimizer.step(closure)
    run.step(1)
    (message,) = attempt.messages("step")
    assert message["grad_norm"] == pytest.approx(math.sqrt(5.0))
    assert message["lr"] == pytest.approx(0.05)
    assert before - task.model.bias.item() == pytest.approx(0.05 * 1e-3 / math.sqrt(5.0), rel=1e-2)


def test_a_loop_of_ones_own_begins_at_its_checkpoint_and_ends_when_it_says_so(attempt: Attempt, task: Task) -> None:
    run = join(task)
    run.begin(40, total=100)
    task.learn()
    run.step(41)
    run.finish()
    (said,) = attempt.messages("run")
    assert (said["start_step"], said["total_steps"]) == (40, 100)
    assert attempt.messages("end")[0] == {**attempt.messages("end")[0], "step": 41, "status": "completed"}


def test_moments_are_left_behind_at_the_resume_only(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(kind=torch.optim.AdamW)
    task.learn()
    monkeypatch.setenv("ORCHESTRATE_RESET_MOMENTS", "1")
    run = join(task)
    assert task.optimizer.state
    run.begin(40)
    assert not task.optimizer.state
    task.learn()
    run.begin(40)
    assert task.optimizer.state
    assert [m.get("reset_moments") for m in attempt.messages("run")] == [True, True]
