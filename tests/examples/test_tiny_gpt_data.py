"""The example's data: which shard a step reads, by step and quarantine alone."""

import pytest
import torch

from examples.tiny_gpt.data import PHASES, ROWS, SHARD_STEPS, Batch, Corpus, Shard
from examples.tiny_gpt.model import BYTES, CONTEXT

NOTHING: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(steps=200, switch=80, seed=3)


def read(corpus: Corpus, start: int, count: int, without: frozenset[str] = NOTHING, **ranks: int) -> list[Batch]:
    batches = corpus.batches(start, without, **ranks)
    return [next(batches) for _ in range(count)]


def names(batches: list[Batch]) -> list[str]:
    return [batch.shards[0] for batch in batches]


def test_prose_comes_first_and_code_after_the_switch(corpus: Corpus) -> None:
    batches = read(corpus, 0, 200)
    assert corpus.switch == 80
    assert {name.split("-")[0] for name in names(batches[:80])} == {"prose"}
    assert {name.split("-")[0] for name in names(batches[80:])} == {"code"}
    assert [corpus.phase(step) for step in (1, 80, 81, 200)] == ["prose", "prose", "code", "code"]


def test_a_shard_is_read_for_its_steps_and_never_again(corpus: Corpus) -> None:
    order = names(read(corpus, 0, 200))
    assert [len(set(order[i : i + SHARD_STEPS])) for i in range(0, 200, SHARD_STEPS)] == [1] * 20
    assert len(set(order)) == 20


def test_a_resume_reads_on_where_it_was(corpus: Corpus) -> None:
    whole, rest = read(corpus, 0, 140), read(corpus, 97, 43)
    for one, other in zip(whole[97:], rest, strict=True):
        assert one.shards == other.shards
        assert torch.equal(one.text, other.text)


def test_without_a_shard_the_later_ones_move_up(corpus: Corpus) -> None:
    order = names(read(corpus, 80, 60))
    left_out = order[25]
    without = names(read(corpus, 80, 60, frozenset([left_out, "prose-9999"])))
    assert without[:20] == order[:20]
    assert without[20:50] == order[30:60]
    assert left_out not in without


def test_the_ranks_share_a_shard_and_no_row(corpus: Corpus) -> None:
    alone = read(corpus, 5, 1)[0]
    both = [read(corpus, 5, 1, rank=rank, world=2)[0] for rank in (0, 1)]
    assert both[0].shards == both[1].shards == alone.shards
    assert [len(batch.text) for batch in both] == [ROWS // 2, ROWS // 2]
    assert torch.equal(torch.stack([batch.text for batch in both], 1).view_as(alone.text), alone.text)


def test_a_row_predicts_the_byte_that_follows(corpus: Corpus) -> None:
    batch = read(corpus, 0, 1)[0]
    assert batch.text.shape == batch.following.shape == (ROWS, CONTEXT)
    assert torch.equal(batch.text[:, 1:], batch.following[:, :-1])
    assert int(batch.text.min()) >= 0
    assert int(batch.text.max()) < BYTES


def test_the_held_out_rows_are_of_both_phases_and_not_trained_on(corpus: Corpus) -> None:
    whole = Corpus(steps=200, switch=100)
    held = {bytes(row.tolist()) for row in whole.held_out}
    assert len(whole.held_out) == 4 * ROWS
    rows = [bytes(row.tolist()) for phase in PHASES for shard in whole.shards[phase] for row in shard.rows]
    # Python's sources repeat themselves here and there; a held-out row is not one of the shards' rows.
    assert sum(row in held for row in rows) < len(held) // 10


def test_the_order_follows_the_seed() -> None:
    one, same, other = (names(read(Corpus(100, seed=seed), 0, 100)) for seed in (1, 1, 2))
    assert one == same != other


def test_one_batch_is_as_hard_as_another(corpus: Corpus) -> None:
    """Batches are balanced: the mean byte value varies far less between batches than chance would have it."""
    rows = torch.cat([shard.rows for shard in corpus.shards["code"]]).double()
    spread = rows.mean(1).std() / ROWS**0.5
    batches = rows.view(-1, ROWS, rows.shape[1]).mean((1, 2))
    assert batches.std() < 0.9 * spread


def test_a_corpus_of_left_out_shards_says_so(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="every shard of prose is left out"):
        corpus.find(1, frozenset(shard.name for shard in corpus.shards["prose"]))


def test_a_longer_run_reads_the_text_again() -> None:
    small = Corpus(steps=20, switch=10)
    small.shards["prose"] = [Shard("prose-0000", small.shards["prose"][0].rows)]
    small.switch = 15
    assert small.find(12)[1] == small.find(2)[1] == 1
