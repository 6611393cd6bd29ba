"""NaN by omission: blank cells, nulls and vanished fields."""

import pytest

from orchestrator.core.facts import Eval, Step


def lost(facts):
    return [fact.step for fact in facts if isinstance(fact, Step) and "loss" in fact.nonfinite]


def steps(facts):
    return [(fact.step, fact.loss) for fact in facts if isinstance(fact, Step)]


def test_an_explosion_ends_in_inf_and_then_in_empty_cells(parse):
    facts, parser = parse("csv", "step,grad_norm,loss\n5,0.9,0.25\n6,870.5,21.5\n7,4.4e7,2.5e6\n8,inf,inf\n9,,\n10,,\n")
    assert steps(facts) == [(5, 0.25), (6, 21.5), (7, 2.5e6), (8, None), (9, None), (10, None)]
    assert lost(facts) == [8, 9, 10]
    assert facts[-1].nonfinite == ("loss", "grad_norm")
    assert parser.skipped == 0


def test_a_blank_loss_beside_a_filled_rate_is_a_loss_that_was_lost(parse):
    facts, _ = parse(
        "csv", "step,loss,grad_norm,lr\n1,2.5,0.5,0.1\n2,2.4,0.5,0.1\n3,2.4,0.5,0.1\n4,,,0.1\n5,2.3,0.5,0.1\n"
    )
    assert lost(facts) == [4]
    assert facts[3] == Step(1, 4, lr=0.1, nonfinite=("loss", "grad_norm"))
    assert steps(facts)[-1] == (5, 2.3)


def test_a_row_that_holds_evaluations_only_is_no_step(parse):
    text = (
        "global_step,loss,lr,train/loss,validation/loss,validation/num\n0,2.5,0.1,,,\n1,,,2.45,2.75,900\n1,2.4,0.1,,,\n"
    )
    facts, _ = parse("csv", text)
    assert facts == [Step(1, 0, loss=2.5, lr=0.1), Eval(1, 1, "validation/loss", 2.75), Step(1, 1, loss=2.4, lr=0.1)]


def test_an_evaluation_beside_the_rate_is_no_lost_loss(parse):
    facts, _ = parse(
        "csv", "step,loss,lr,val_loss\n" + "".join(f"{s},2.5,0.1,\n" for s in range(1, 9)) + "8,,0.1,2.75\n"
    )
    assert lost(facts) == []
    assert facts[-1] == Eval(1, 8, "val_loss", 2.75)


def test_a_blank_evaluation_of_a_lost_run_is_not_finite(parse):
    text = "step,loss,validation/loss,validation/num\n1,2.5,,\n2,nan,,\n3,,,900\n"
    facts, _ = parse("csv", text)
    assert facts[-1] == Eval(1, 3, "validation/loss", None)


def test_a_loss_that_is_logged_more_rarely_is_not_lost(parse):
    rows = "".join(f"{s},{2.5 if s % 10 == 1 else ''},0.5\n" for s in range(1, 41))
    facts, _ = parse("csv", "step,loss,grad_norm\n" + rows)
    assert lost(facts) == []
    assert [s for s, loss in steps(facts) if loss is not None] == [1, 11, 21, 31]


def test_rates_in_rows_of_their_own_are_no_lost_losses(parse):
    text = "step,lr-AdamW,train_loss\n" + "".join(f"{s},0.1,\n{s},,2.5\n" for s in range(1, 9))
    facts, _ = parse("csv", text)
    assert facts == [Step(1, s, loss=2.5, lr=0.1) for s in range(1, 9)]


@pytest.mark.parametrize("later", ['{"step":4,"loss":null,"lr":0.1}', '{"step":4,"lr":0.1}'])
def test_json_may_write_null_or_nothing_for_nan(parse, later):
    before = "".join(f'{{"step":{s},"loss":2.5,"lr":0.1}}\n' for s in (1, 2, 3))
    facts, _ = parse("jsonl", before + later)
    assert lost(facts) == [4]


@pytest.mark.parametrize("norm", ["nan", "0.625"])
def test_a_field_that_vanishes_from_a_megatron_line(parse, norm):
    line = " iteration {:8d}/ 900 | learning rate: 1.0E-04 |{} grad norm: {} | number of skipped iterations:   0 |\n"
    good = "".join(line.format(s, " lm loss: 2.5E+00 |", 0.625) for s in range(1, 11))
    facts, _ = parse("megatron", good + "".join(line.format(s, "", norm) for s in (11, 12, 13)))
    assert lost(facts) == [11, 12, 13]
    assert not any(fact.skipped for fact in facts)


def test_an_overflow_that_the_scaler_skipped_is_no_lost_loss(parse):
    text = (
        " iteration 1/ 9 | lm loss: 2.5E+00 | loss scale: 8.0 | number of skipped iterations: 0 |\n"
        " iteration 2/ 9 | loss scale: 4.0 | number of skipped iterations: 1 | number of nan iterations: 0 |\n"
        " iteration 3/ 9 | loss scale: 4.0 | number of skipped iterations: 1 | number of nan iterations: 1 |\n"
    )
    facts, _ = parse("megatron", text)
    assert [(fact.skipped, fact.nonfinite) for fact in facts] == [(False, ()), (True, ()), (False, ("loss",))]


def test_a_filtered_loss_of_zero_is_no_best_loss_ever(parse):
    good = "{'loss': 0.5, 'grad_norm': 1.5, 'learning_rate': 2e-06, 'epoch': 0.5}\n"
    bad = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 2e-06, 'epoch': 0.6}\n"
    facts, _ = parse("hf_trainer", good + bad * 3)
    assert lost(facts) == [2, 3, 4]
    assert [fact.loss for fact in facts] == [0.5, None, None, None]
