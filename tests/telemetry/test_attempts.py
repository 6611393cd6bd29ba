"""Several attempts in one text, and what only looks like one."""

import pytest

from orchestrator.core.facts import Announced, Eval, Step


def jsonl(*steps):
    return "".join(f'{{"step":{step},"loss":{1 + step / 64}}}\n' for step in steps)


def csv(*steps):
    return "step,loss\n" + "".join(f"{step},{1 + step / 64}\n" for step in steps)


def llmc(*steps):
    return "".join(f"s:{step} trl:{1 + step / 64} lr:0.001 norm:0.5\n" for step in steps)


def wire(*steps):
    return "".join(f'{{"type":"step","step":{step},"loss":{1 + step / 64}}}\n' for step in steps)


@pytest.mark.parametrize(("form", "text"), [("jsonl", jsonl), ("csv", csv), ("llmc", llmc), ("wire", wire)])
def test_a_crash_and_a_resume_are_two_attempts(parse, form, text):
    facts, _ = parse(form, text(*range(1, 38), *range(31, 45)))
    assert [(fact.attempt, fact.step) for fact in facts if isinstance(fact, Step)] == [
        *((1, step) for step in range(1, 38)),
        *((2, step) for step in range(31, 45)),
    ]
    told = [fact for fact in facts if isinstance(fact, Announced)]
    assert told == [Announced(2, start_step=30)]
    assert facts.index(told[0]) == 37


def test_the_first_lines_of_a_resume_are_told_as_they_are_printed(parse):
    line = " iteration {:4d}/ 99 | lm loss: {:.6E} | grad norm: 0.500 |\n"
    printed = [(40, 7.25), (41, 7.0), (42, 7.0), (41, 6.75), (42, 6.875), (43, 6.5)]  # the second is a mean of two
    facts, _ = parse("megatron", "".join(line.format(*pair) for pair in printed))
    assert [(fact.attempt, fact.step, fact.loss) for fact in facts if isinstance(fact, Step)] == [
        *((1, *pair) for pair in printed[:3]),
        *((2, *pair) for pair in printed[3:]),
    ]


def test_a_second_header_begins_a_second_table(parse):
    facts, parser = parse("csv", csv(1, 2, 3) + "step,lr,loss\n2,0.1,2.5\n")
    assert facts[-1] == Step(2, 2, loss=2.5, lr=0.1)
    assert parser.skipped == 0


def test_the_same_step_again_is_a_repeat(parse):
    facts, parser = parse("jsonl", jsonl(1, 2, 2, 2, 3))
    assert [(fact.attempt, fact.step) for fact in facts] == [(1, 1), (1, 2), (1, 3)]
    assert parser.skipped == 0


@pytest.mark.parametrize("evaluated", [150, 203, 249])
def test_an_evaluation_of_another_step_is_no_restart_and_hides_none(parse, evaluated):
    late = f'{{"step":203,"loss":2.5}}\n{{"step":{evaluated},"eval_loss":2.75}}\n'
    late += '{"step":204,"loss":2.5}\n{"step":205,"loss":2.5}\n'
    facts, _ = parse("jsonl", late)
    assert [type(fact) for fact in facts] == [Step, Eval, Step, Step]
    assert {fact.attempt for fact in facts} == {1}


def titan(rank, step):
    return f"[rank{rank}]:[titan] x - root - INFO - step: {step}  loss:  {step + rank / 8}  memory: 1GiB(1%)\n"


def test_ranks_that_print_the_same_steps_are_one_attempt(parse):
    order = [(0, 1), (1, 1), (1, 2), (0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (1, 5), (0, 5)]
    facts, _ = parse("torchtitan", "".join(titan(*pair) for pair in order))
    assert [(fact.attempt, fact.step) for fact in facts] == [(1, step) for step in range(1, 6)]


def test_a_restart_is_seen_behind_labels_too(parse):
    before = [(rank, step) for step in range(1, 8) for rank in (0, 1)]
    after = [(rank, step) for step in range(5, 9) for rank in (0, 1)]
    facts, _ = parse("torchtitan", "".join(titan(*pair) for pair in before + after))
    assert [(fact.attempt, fact.step) for fact in facts if isinstance(fact, Step)] == [
        *((1, step) for step in range(1, 8)),
        *((2, step) for step in range(5, 9)),
    ]


def test_another_rank_may_report_after_a_restart(parse):
    facts, _ = parse("torchtitan", "".join(titan(7, step) for step in range(1, 8)) + titan(3, 5) + titan(3, 6))
    assert [(fact.attempt, fact.step) for fact in facts if isinstance(fact, Step)][-3:] == [(1, 7), (2, 5), (2, 6)]


def test_records_without_steps_restart_where_their_epoch_does(parse):
    line = "{{'loss': 1.5, 'grad_norm': 0.5, 'epoch': {}}}\n"
    facts, _ = parse(
        "hf_trainer", "".join(line.format(epoch) for epoch in (0.1, 0.2, 0.3, 0.4, 0.5, 0.3, 0.4, 0.5, 0.6))
    )
    assert [(fact.attempt, fact.step) for fact in facts if isinstance(fact, Step)] == [
        (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5), (2, 6),
    ]  # fmt: skip
