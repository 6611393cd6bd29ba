"""`trace`: the module where a step that is not finite began."""

import copy
import math

import pytest
import torch
from supervised import Attempt, Task, join
from torch import Tensor, nn

import orchestrator
from orchestrator.training.trace import Trace


class Fault(nn.Module):
    """Passes its input on, or what `put` makes of it."""

    def __init__(self, put: float | None = None) -> None:
        super().__init__()
        self.put = put

    def forward(self, x: Tensor) -> Tensor:
        return x if self.put is None else x * self.put


class Block(nn.Module):
    """Two layers and, between them, an addition that is nobody's."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.fault, self.down = nn.Linear(4, 4), Fault(), nn.Linear(4, 4)
        self.own = 0.0

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"out": self.down(self.fault(self.up(x))) + self.own}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block(), Block()])
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)["out"]
        return self.head(x)


@pytest.fixture
def deep(task: Task) -> Task:
    torch.manual_seed(1)
    task.model = Net()  # type: ignore[assignment]
    task.optimizer = torch.optim.SGD(task.model.parameters(), lr=0.01)
    return task


def test_the_first_module_whose_output_overflows_is_named(attempt: Attempt, deep: Task) -> None:
    run = join(deep, trace=True)
    for step, put in ((1, None), (2, math.inf), (3, None), (4, math.nan)):
        deep.model.blocks[step - 2].fault.put = put
        run.step(step, loss=deep.learn())
        deep.model.blocks[step - 2].fault.put = None
    told = {m["step"]: m.get("nonfinite_module") for m in attempt.messages("step")}
    assert told == {1: None, 2: "blocks.0.fault", 3: None, 4: "blocks.2.fault"}
    names = attempt.messages("step")[1]["nonfinite_names"]
    assert len(names) == 3


def test_an_overflow_between_modules_is_their_parents(attempt: Attempt, deep: Task) -> None:
    run = join(deep, trace=True)
    run.step(1, loss=deep.learn())
    deep.model.blocks[1].own = math.inf
    run.step(2, loss=deep.learn())
    assert attempt.messages("step")[1]["nonfinite_module"] == "blocks.1"


def test_a_loss_that_is_not_finite_is_enough(attempt: Attempt, deep: Task) -> None:
    """A loop that leaves the update out by itself."""
    run = join(deep, trace=True)
    run.step(1, loss=deep.learn())
    deep.model.blocks[1].fault.put = math.nan
    run.step(2, loss=deep.model(deep.batch).mean())
    assert attempt.messages("step")[1]["nonfinite_module"] == "blocks.1.fault"


def test_of_several_micro_batches_the_first_counts(attempt: Attempt, deep: Task) -> None:
    run = join(deep, trace=True)
    run.step(1, loss=deep.learn())
    for block in (2, 0):
        deep.model.blocks[block].fault.put = math.nan
        deep.model(deep.batch).mean().backward()
        deep.model.blocks[block].fault.put = None
    deep.optimizer.step()
    run.step(2, loss=1.0)
    assert attempt.messages("step")[1]["nonfinite_module"] == "blocks.2.fault"


def test_a_mask_that_is_infinite_by_design_is_passed_over(attempt: Attempt, deep: Task) -> None:
    class Mask(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.full_like(x, -math.inf)

    class Masked(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.mask, self.inner = Mask(), inner

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x + 0.0 * self.mask(x).exp())

    inner = deep.model
    deep.model = Masked(inner)  # type: ignore[assignment]
    run = join(deep, trace=True)
    run.step(1, loss=deep.learn())
    inner.blocks[1].fault.put = math.inf
    run.step(2, loss=deep.learn())
    assert attempt.messages("step")[1]["nonfinite_module"] == "inner.blocks.1.fault"


def test_evaluations_between_steps_are_not_the_steps(attempt: Attempt, deep: Task) -> None:
    run = join(deep, trace=True)
    run.step(1, loss=deep.learn())
    deep.model.blocks[0].fault.put = math.inf
    deep.model.eval()
    with torch.no_grad():
        deep.model(deep.batch)
    deep.model.train()
    deep.model.blocks[0].fault.put = None
    deep.model.blocks[2].fault.put = math.inf
    run.step(2, loss=deep.learn())
    assert attempt.messages("step")[1]["nonfinite_module"] == "blocks.2.fault"


def test_the_flag_of_an_accelerator_says_the_same(monkeypatch: pytest.MonkeyPatch, deep: Task) -> None:
    """The road without waiting, walked in the CPU's memory: outputs claim to be elsewhere."""
    from orchestrator.training.shield import Shield

    trace = Trace(deep.model, Shield())
    deep.model(deep.batch)
    assert trace.take(True) == ""

    class Elsewhere:
        type = "elsewhere"

    monkeypatch.setattr(Tensor, "device", property(lambda tensor: Elsewhere))
    for block in (2, 0):
        deep.model.blocks[block].fault.put = math.nan
        deep.model(deep.batch)
        deep.model.blocks[block].fault.put = None
    assert len(trace._flags) == 1
    assert trace.take(False) == "blocks.2.fault"
    deep.model(deep.batch)
    assert trace.take(None) == ""


def test_outputs_and_gradients_are_what_they_were(attempt: Attempt, deep: Task) -> None:
    bare = copy.deepcopy(deep.model)
    join(deep, trace=True)
    batch = deep.batch.clone().requires_grad_()
    ours, theirs = deep.model(batch), bare(deep.batch)
    ours.mean().backward()
    theirs.mean().backward()
    assert torch.equal(ours, theirs)
    for one, other in zip(deep.model.parameters(), bare.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)  # type: ignore[arg-type]


def test_without_trace_and_without_a_supervisor_no_module_has_a_hook(
    attempt: Attempt, deep: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(deep)
    monkeypatch.delenv("ORCHESTRATE_RUN_DIR")
    run = orchestrator.attach(deep.optimizer, model=deep.model, trace=True)
    run.step(1, loss=deep.learn())
    assert not any(module._forward_hooks for module in deep.model.modules())


def test_a_copy_and_a_pickled_model_still_work(attempt: Attempt, deep: Task, tmp_path) -> None:
    run = join(deep, trace=True)
    run.step(1, loss=deep.learn())
    assert torch.equal(copy.deepcopy(deep.model)(deep.batch), deep.model(deep.batch))
    torch.save(deep.model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    assert torch.equal(loaded(deep.batch), deep.model(deep.batch))


def test_a_kind_of_number_that_cannot_be_measured_is_told_once(
    attempt: Attempt, deep: Task, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = join(deep, trace=True)

    def broken(*_: object, **__: object) -> Tensor:
        raise NotImplementedError("no kernel")

    monkeypatch.setattr("torch.linalg.vector_norm", broken)
    for step in (1, 2):
        run.step(step, loss=deep.learn())
    assert capsys.readouterr().err.count("trace failed (NotImplementedError: no kernel)") == 1
    assert [m["step"] for m in attempt.messages("step")] == [1, 2]


def test_without_a_model_it_says_so(attempt: Attempt, task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    orchestrator.attach(task.optimizer, trace=True).step(1, loss=task.learn())
    assert "trace needs attach(..., model=...)" in capsys.readouterr().err
