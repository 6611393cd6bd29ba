"""What the ranks tell each other, without the other ranks: rows, hashes, names, summaries, values read late."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from supervised import Attempt

from orchestrator import wire
from orchestrator.training.cadence import Cadence
from orchestrator.training.gathered import Gathered
from orchestrator.training.guard import UNDONE, Done
from orchestrator.training.inbox import Directive, Inbox
from orchestrator.training.link import DeviceLink, HostLink, link
from orchestrator.training.orders import Desk, Orders
from orchestrator.training.ranks import HAS_SUM, LOOKUPS, LOSS, SHOWN, SLOTS, WIDTH, Row, Shards, block, hash_of
from orchestrator.training.replicas import Replicas
from orchestrator.training.shield import Shield
from orchestrator.training.stream import Stream
from orchestrator.training.team import Parts, Team


def table(rows: list[Row]) -> torch.Tensor:
    return torch.tensor([row.packed() for row in rows], dtype=torch.float64)


def test_a_hash_is_stable_and_survives_a_float() -> None:
    assert hash_of("web-00012") == hash_of("web-00012")
    hashes = {hash_of(f"shard-{n}") for n in range(20_000)}
    assert len(hashes) == 20_000
    assert all(int(float(number)) == number and 0 < number < 2**52 for number in hashes)


def test_few_ranks_are_listed_and_one_without_a_value_is_a_gap() -> None:
    values = torch.tensor([2.0, 0.0, math.nan], dtype=torch.float64)
    listed = block(values, torch.tensor([True, False, True]))
    assert listed[:2] == [2.0, None]
    assert math.isnan(listed[2])


def test_many_ranks_are_a_median_and_the_odd_ones() -> None:
    values = torch.linspace(2.0, 2.2, 16_384, dtype=torch.float64)
    values[317], values[9000], values[12] = 9.1, math.nan, -3.0
    given = torch.ones(len(values), dtype=torch.bool)
    given[5] = False
    found = block(values, given)
    assert found["median"] == pytest.approx(2.1, abs=1e-3)
    assert found["mad"] == pytest.approx(0.05, abs=1e-3)
    assert set(found["odd"]) == {"317", "9000", "12"}
    assert found["odd"]["317"] == 9.1
    assert math.isnan(found["odd"]["9000"])


def test_a_summary_stays_small_and_keeps_the_worst() -> None:
    values = torch.ones(1000, dtype=torch.float64)
    values[:100] = torch.arange(100) + 5.0
    found = block(values, torch.ones(1000, dtype=torch.bool))
    assert set(found["odd"]) == {str(rank) for rank in range(84, 100)}


def test_ranks_none_of_which_is_finite_are_still_told() -> None:
    found = block(torch.full((100,), math.inf), torch.ones(100, dtype=torch.bool))
    assert "median" not in found
    assert found["odd"]["0"] == math.inf


def test_names_come_from_the_side_file_of_the_rank_that_sent_the_hash(tmp_path: Path) -> None:
    wire.attempt_dir(tmp_path, 1).mkdir(parents=True)
    mine, theirs = Shards(tmp_path, 1), Shards(tmp_path, 1)
    stream = Stream(wire.telemetry_file(tmp_path, 1, 1))
    assert [name for _, name in mine.new(["a"])] == ["a"]
    rows = []
    for name in ("b", "c"):
        for number, fresh in theirs.new([name, "a"]):
            stream.send({"type": "shard", "hash": number, "name": fresh})
        rows = [Row(shards=1, hashes=mine.hashes(["a"])), Row(shards=2, hashes=theirs.hashes([name, "a"]))]
        assert mine.names(table(rows)) == (["a", name], 0)
    assert theirs.new(["b", "c", "a"]) == []


def test_a_name_not_written_yet_is_counted_and_found_later(tmp_path: Path) -> None:
    wire.attempt_dir(tmp_path, 1).mkdir(parents=True)
    shards = Shards(tmp_path, 1)
    rows = table([Row(), Row(shards=1, hashes=(hash_of("late"),))])
    assert shards.names(rows) == ([], 1)
    Stream(wire.telemetry_file(tmp_path, 1, 1)).send({"type": "shard", "hash": hash_of("late"), "name": "late"})
    assert shards.names(rows) == (["late"], 0)


def test_a_batch_of_more_shards_than_a_row_holds_says_so(tmp_path: Path) -> None:
    shards = Shards(tmp_path, 1)
    names = [f"s{n}" for n in range(SLOTS + 3)]
    shards.new(names)
    assert shards.names(table([Row(shards=len(names), hashes=shards.hashes(names))])) == (names[:SLOTS], 3)


def test_thousands_of_ranks_with_new_shards_do_not_hold_a_step_up(tmp_path: Path) -> None:
    wire.attempt_dir(tmp_path, 1).mkdir(parents=True)
    rows, known = [], 0
    for rank in range(200):
        name = f"s{rank}"
        Stream(wire.telemetry_file(tmp_path, 1, rank)).send({"type": "shard", "hash": hash_of(name), "name": name})
        rows.append(Row(shards=1, hashes=(hash_of(name),)))
    shards = Shards(tmp_path, 1)
    for turn in range(1, 4):
        names, more = shards.names(table(rows))
        known = len(names)
        assert (known, more) == (turn * LOOKUPS, 200 - turn * LOOKUPS)
    assert names[:2] == ["s0", "s1"]


class Late:
    """A process on an accelerator, as far as that shows without one: values are read a step later."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.cadence = Cadence(None)
        inbox = Inbox(attempt.folder / wire.DIRECTIVE, 1, Directive())
        device = DeviceLink(0, 1, torch.device("cpu"))
        stream = Stream(wire.telemetry_file(attempt.run_dir, 1))
        gathered = Gathered(Shards(attempt.run_dir, 1), Replicas(()))
        self.team = Team(Shield(), stream, Desk(inbox, self.cadence), Parts(device, gathered))

    def step(self, step: int, loss: float) -> Orders:
        done: Done = (0.1,), (torch.tensor(loss / 2), None, 0, False, ())
        self.team.held.append((step, 0.0, torch.tensor(loss), ("a",), {}, done))
        return self.team.report(step, {}, calm=True)


def test_on_an_accelerator_a_step_is_written_when_the_next_one_comes(attempt: Attempt) -> None:
    late = Late(attempt)
    late.step(1, 4.0)
    assert attempt.lines() == []
    late.step(2, math.nan)
    late.step(3, 6.0)
    late.team.flush()
    steps = attempt.messages("step")
    assert [(m["step"], m["loss"], m["grad_norm"]) for m in steps] == [(1, 4.0, 2.0), (2, "nan", "nan"), (3, 6.0, 3.0)]
    assert "ranks" not in steps[0]


def test_tokens_that_are_no_number_never_reach_the_trainer_as_an_error(
    attempt: Attempt, capsys: pytest.CaptureFixture[str]
) -> None:
    late = Late(attempt)
    for step in (1, 2):
        late.team.held.append((step, 0.0, None, (), {"tokens": object()}, UNDONE))
        assert late.team.report(step, {}, calm=True) == Orders()
    assert capsys.readouterr().err.count("the hook's directives failed") == 1


def test_on_an_accelerator_orders_are_for_the_step_they_reach(attempt: Attempt) -> None:
    late = Late(attempt)
    late.step(1, 1.0)
    attempt.direct(cuts=[[0.5, 3, 0, 10]], save=1)
    assert late.step(2, 1.0) == Orders()
    # Decided at step 2 for step 3: the rate of the update to step 4, given back by a tenth.
    assert late.step(3, 1.0) == Orders(scale=pytest.approx(0.55), due=True)
    assert late.step(4, 1.0).due is False


@pytest.mark.parametrize(
    ("device", "config", "kind"),
    [("cpu", "cpu:gloo,cuda:nccl", HostLink), ("cuda", "cpu:gloo,cuda:nccl", DeviceLink),
     ("cuda", "cpu:gloo,cuda:gloo", HostLink), ("cuda", "cpu:nccl,cuda:nccl", DeviceLink)],
)  # fmt: skip
def test_the_exchange_is_where_the_jobs_own_group_is_fast(
    monkeypatch: pytest.MonkeyPatch, device: str, config: str, kind: type
) -> None:
    monkeypatch.setattr("torch.distributed.get_backend_config", lambda group: config)
    assert type(link(0, 2, torch.device(device))) is kind


def test_many_ranks_exchange_every_step_and_come_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    many = SHOWN + 1

    def gather(rows: torch.Tensor, own: torch.Tensor, later: bool = False) -> Any:
        rows.view(many, -1).copy_(own.expand(many, -1))
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr("orchestrator.training.link._gather", gather)
    exchange = HostLink(0, many)
    assert exchange.take() is None
    exchange.send("ticket", [Row(loss=2.5)])
    ticket, (rows,) = exchange.take()
    assert (ticket, exchange.most, tuple(rows.shape)) == ("ticket", 1, (many, WIDTH))
    assert rows[:, LOSS].tolist() == [2.5] * many


def test_a_part_that_broke_on_one_rank_sleeps_on_all(attempt: Attempt) -> None:
    late = Late(attempt)
    broken = Row(flags=16)
    late.team._taken([(1, 0.0, None, (), {}, UNDONE)], [[Row().packed(), broken.packed()]])
    assert "gradient guard" in late.team._shield.asleep


def test_lines_of_the_wire_are_json(attempt: Attempt) -> None:
    late = Late(attempt)
    late.step(1, 2.0)
    late.team.flush()
    for line in wire.telemetry_file(attempt.run_dir, 1).read_text().splitlines():
        assert json.loads(line)["type"] == "step"


def test_replicas_that_part_are_named_and_parts_of_one_model_are_not(attempt: Attempt) -> None:
    def told(team: Team, *sums: float) -> object:
        rows = [Row(flags=HAS_SUM, replica=value).packed() for value in sums]
        team._taken([(100, 0.0, None, (), {}, UNDONE)], [rows])
        team.flush()
        return attempt.messages("step")[-1].get("replicas_odd")

    late = Late(attempt)
    assert told(late.team, 0.5, 0.5, 0.5) is None
    assert told(late.team, 0.5, 0.25, 0.5) == [1]
    late.team._gathered.replicas = Replicas(())
    assert told(late.team, 0.5, 0.25, 0.75) is None
    assert told(late.team, 0.5, 0.3, 0.75) is None


def test_a_sum_over_a_few_weights_is_exact() -> None:
    model = torch.nn.Linear(4, 1)
    replicas = Replicas([torch.optim.SGD(model.parameters(), lr=0.1)])
    due = replicas.value()
    assert due is not None
    expected = sum(p.detach().double().sum().item() for p in model.parameters())
    assert due.item() == pytest.approx(expected, rel=1e-12)
