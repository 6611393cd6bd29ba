"""What the hook does to an update: the rate, the limit, the skip, and nothing that stays."""

import copy
import math

import pytest
import torch
from supervised import Attempt, Task, join

import orchestrator
from orchestrator.core.policy import Clip, Decay, Phase, Policy, Schedule, Warmup
from orchestrator.core.schedule import rate


def moved(task: Task, gradient: float = 1.0) -> float:
    """How far one update with a constant gradient moved the bias: with SGD, the rate."""
    before = task.model.bias.item()
    for parameter in task.model.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    task.optimizer.step()
    return before - task.model.bias.item()


def test_the_policy_owns_the_rate(attempt: Attempt, task: Task) -> None:
    schedule = Schedule(peak=0.5, warmup=Warmup(for_=4), decay=Decay(until=12, to=0.1))
    attempt.plan(Policy(schedule=schedule))
    run = join(task)
    for step in range(1, 15):
        assert moved(task) == pytest.approx(rate(schedule, step), rel=1e-4)
        assert task.optimizer.param_groups[0]["lr"] == 0.1
        run.step(step)
    assert [m["lr"] for m in attempt.messages("step")] == pytest.approx([rate(schedule, s) for s in range(1, 15)])


def test_the_rate_goes_on_where_telemetry_has_gone_quiet(attempt: Attempt, task: Task) -> None:
    schedule = Schedule(peak=0.5, warmup=Warmup(for_=4))
    attempt.plan(Policy(schedule=schedule))
    run = join(task)
    for step in range(1, 5):
        assert moved(task) == pytest.approx(rate(schedule, step), rel=1e-4)
        run.step(step, loss=object())


def test_an_update_that_was_dropped_is_told_though_another_without_gradients_follows(
    attempt: Attempt, task: Task
) -> None:
    run = join(task)
    task.learn(times=math.nan)
    task.optimizer.step()
    run.step(1, loss=1.0)
    told = attempt.messages("step")[-1]
    assert (told["skipped"], told["grad_norm"], told["nonfinite"]) == (True, "nan", 2)
    task.learn()
    run.step(2, loss=1.0)
    assert "skipped" not in attempt.messages("step")[-1]


def test_cuts_phases_and_the_trainers_own_changes_multiply(attempt: Attempt, task: Task) -> None:
    attempt.plan(Policy(schedule=Schedule(peak=1.0), phases={"a": Phase(until=1), "b": Phase(lr=0.5, rewarm=4)}))
    attempt.direct(cuts=[[0.5, 0, None, None]])
    run = join(task)
    assert moved(task) == pytest.approx(0.5, rel=1e-4)
    run.step(1)
    task.optimizer.param_groups[0]["lr"] *= 3.0
    assert moved(task) == pytest.approx(1.0 * 0.5 * (0.5 / 4) * 3.0, rel=1e-4)
    assert task.optimizer.param_groups[0]["lr"] == pytest.approx(0.3)


def test_without_a_schedule_the_trainers_rate_is_only_scaled(attempt: Attempt, task: Task) -> None:
    attempt.direct(cuts=[[0.25, 0, None, None]])
    join(task)
    assert moved(task) == pytest.approx(0.025, rel=1e-4)


def test_a_scheduler_built_before_does_not_move_the_base(attempt: Attempt, task: Task) -> None:
    warm = torch.optim.lr_scheduler.LambdaLR(task.optimizer, lambda step: (step + 1) / 10)
    attempt.plan(Policy(schedule=Schedule(peak=1.0)))
    run = join(task)
    assert moved(task) == pytest.approx(0.1, rel=1e-4)
    warm.step()
    run.step(1)
    assert moved(task) == pytest.approx(0.2, rel=1e-4)


def test_groups_keep_their_ratio_and_are_all_reported(attempt: Attempt, task: Task) -> None:
    groups = [{"params": [task.model.weight], "lr": 0.2}, {"params": [task.model.bias], "lr": 0.1}]
    task.optimizer = torch.optim.SGD(groups)
    attempt.plan(Policy(schedule=Schedule(peak=1.0)))
    run = join(task)
    assert moved(task) == pytest.approx(0.5, rel=1e-4)
    run.step(1)
    (message,) = attempt.messages("step")
    assert message["lr"] == pytest.approx(1.0)
    assert message["lrs"] == pytest.approx([1.0, 0.5])


def test_a_rate_that_is_a_tensor_is_never_changed_in_place(attempt: Attempt) -> None:
    lr = torch.tensor(0.1)
    task = Task(lr=lr, kind=torch.optim.AdamW)  # type: ignore[arg-type]
    attempt.direct(cuts=[[0.5, 0, None, None]])
    run = join(task)
    run.step(1, loss=task.learn())
    assert task.optimizer.param_groups[0]["lr"] is lr
    assert lr.item() == pytest.approx(0.1)
    assert attempt.messages("step")[0]["lr"] == pytest.approx(0.05)


def test_nothing_of_ours_enters_the_trainers_state(attempt: Attempt) -> None:
    attempt.direct(cuts=[[0.5, 0, None, None]])
    states = []
    for hooked in (False, True):
        task = Task(kind=torch.optim.AdamW)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(task.optimizer, max_lr=0.1, total_steps=20)
        run = join(task) if hooked else None
        for step in range(1, 11):
            # Gradients that do not depend on the weights, so that a cut rate changes no moment.
            for parameter in task.model.parameters():
                parameter.grad = torch.full_like(parameter, math.sin(step))
            task.optimizer.step()
            scheduler.step()
            if run is not None:
                run.step(step, loss=1.0)
        states.append((task.optimizer.state_dict(), scheduler.state_dict()))
    (bare, bare_scheduler), (ours, our_scheduler) = states
    assert ours["param_groups"] == bare["param_groups"]
    assert our_scheduler == bare_scheduler
    assert ours["state"].keys() == bare["state"].keys()
    for key, state in bare["state"].items():
        assert all(torch.equal(ours["state"][key][name], value) for name, value in state.items())


def test_clipping_equals_torchs_own(attempt: Attempt) -> None:
    attempt.plan(Policy(clip=Clip(max_norm=0.8)))
    attempt.direct(clip_scale=0.5)
    ours, bare = Task(kind=torch.optim.AdamW), Task(kind=torch.optim.AdamW)
    run = join(ours)
    for step in range(1, 6):
        run.step(step, loss=ours.learn())
        bare.optimizer.zero_grad()
        bare.model(bare.batch).pow(2).mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(bare.model.parameters(), 0.4)
        bare.optimizer.step()
        message = attempt.messages("step")[-1]
        assert torch.tensor(message["grad_norm"]) == norm  # as a float32, to the last bit
        assert message["clip"] == pytest.approx(0.4)
        assert torch.equal(ours.weights(), bare.weights())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_skips_the_update_exactly(attempt: Attempt, bad: float) -> None:
    task = Task(kind=torch.optim.AdamW)
    run = join(task)
    run.step(1, loss=task.learn())
    weights, state = task.weights(), copy.deepcopy(task.optimizer.state_dict())
    for parameter in task.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    task.model.weight.grad[0, 1] = bad
    task.optimizer.step()
    run.step(2, loss=1.0)
    assert torch.equal(task.weights(), weights)
    for key, before in state["state"].items():
        assert all(torch.equal(task.optimizer.state_dict()["state"][key][name], v) for name, v in before.items())
    message = attempt.messages("step")[-1]
    assert (message["skipped"], message["nonfinite"], message["grad_norm"]) == (True, 1, str(bad))
    run.step(3, loss=task.learn())
    assert "skipped" not in attempt.messages("step")[-1]
    assert not torch.equal(task.weights(), weights)


def test_the_guard_can_be_turned_off(attempt: Attempt, task: Task) -> None:
    run = join(task, guard=False)
    moved(task, gradient=math.nan)
    run.step(1)
    assert not torch.isfinite(task.weights()).any()
    assert "skipped" not in attempt.messages("step")[0]


def test_several_optimizers_share_one_norm_and_one_verdict(attempt: Attempt, task: Task) -> None:
    first, second = torch.optim.SGD([task.model.weight], lr=0.1), torch.optim.SGD([task.model.bias], lr=0.1)
    attempt.plan(Policy(clip=Clip(max_norm=1.0)))
    task.optimizer = [first, second]  # type: ignore[assignment]
    run = join(task)
    weights = task.weights()
    task.model.weight.grad, task.model.bias.grad = torch.full((1, 4), 1.5), torch.full((1,), 4.0)
    first.step()
    second.step()
    run.step(1)
    assert attempt.messages("step")[0]["grad_norm"] == pytest.approx(5.0)
    expected = weights - 0.1 * torch.tensor([1.5, 1.5, 1.5, 1.5, 4.0]) / 5.0
    torch.testing.assert_close(task.weights(), expected, rtol=1e-5, atol=1e-6)
    weights = task.weights()
    task.model.weight.grad, task.model.bias.grad = torch.ones(1, 4), torch.full((1,), math.nan)
    first.step()
    second.step()
    assert torch.equal(task.weights(), weights)


def test_an_update_that_raises_leaves_no_scaled_rate_behind(attempt: Attempt, task: Task) -> None:
    attempt.direct(cuts=[[0.5, 0, None, None]])
    join(task)
    task.model.weight.grad = torch.ones(1, 4)

    def fail(*_: object) -> None:
        raise RuntimeError("device lost")

    handle = task.optimizer.register_step_pre_hook(fail)
    with pytest.raises(RuntimeError, match="device lost"):
        task.optimizer.step()
    handle.remove()
    assert moved(task) == pytest.approx(0.05, rel=1e-4)
    assert task.optimizer.param_groups[0]["lr"] == 0.1


def test_gradients_may_be_accumulated_over_several_backward_passes(attempt: Attempt, task: Task) -> None:
    run = join(task)
    for _ in range(3):
        (task.model(task.batch).mean() / 3).backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in task.model.parameters()]).item()
    task.optimizer.step()
    run.step(1, loss=1.0)
    assert attempt.messages("step")[0]["grad_norm"] == pytest.approx(norm)


def test_gradients_of_several_kinds_have_one_norm(attempt: Attempt) -> None:
    own = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))]
    optimizer = torch.optim.SGD(own, lr=0.1)
    run = orchestrator.attach(optimizer)
    for parameter in own:
        parameter.grad = torch.full_like(parameter, 2.0)
    optimizer.step()
    run.step(1, loss=1.0)
    assert attempt.messages("step")[0]["grad_norm"] == pytest.approx(math.sqrt(20), rel=1e-3)


def test_a_guard_that_fails_lets_the_rate_stand(
    attempt: Attempt, task: Task, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt.direct(cuts=[[0.5, 0, None, None]])
    run = join(task)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr("torch.linalg.vector_norm", broken)
    for step in range(1, 4):
        assert moved(task) == pytest.approx(0.05, rel=1e-4)
        run.step(step, loss=1.0)
    assert capsys.readouterr().err.count("gradient guard failed (RuntimeError: no kernel)") == 1
    assert [m["step"] for m in attempt.messages("step")] == [1, 2, 3]
