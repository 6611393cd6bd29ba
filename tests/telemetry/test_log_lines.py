"""What single formats do that the others do not."""

import pytest

from orchestrator.core.facts import Eval, Step

MEGATRON = " iteration {step}/ 99 | lm loss: {loss} | grad norm: 0.5 |"


def test_two_ranks_in_one_line_are_never_joined(parse):
    text = (
        "[default1]: iteration 10/ 99 | lm loss: 2.75[default2]: iteration 10/ 99 | lm loss: 2.5\n | grad norm: 0.5 |\n"
    )
    facts, parser = parse("megatron", text)
    assert facts == []
    assert parser.skipped == 2


def test_two_lines_glued_by_a_crash_are_never_joined(parse):
    cut = MEGATRON.format(step=10, loss="2.5E+00")[:14]
    facts, parser = parse("megatron", cut + MEGATRON.format(step=8, loss="2.75E+00") + "\n")
    assert facts == []
    assert parser.skipped == 1


def test_fields_are_read_by_name_in_any_order(parse):
    facts, _ = parse(
        "megatron", " iteration 7/ 9 | grad norm: 0.5 | a new field: 3 | lm loss: 2.5E+00 | params norm: 9.5 |\n"
    )
    assert facts == [Step(1, 7, loss=2.5, grad_norm=0.5, param_norm=9.5)]


def test_rounded_steps_are_counted_and_told(parse, caplog):
    text = "".join(f"INFO step:{step} smpl:9K loss:{loss} grdn:0.5 lr:1e-05\n" for step, loss in
                   [("600", 3.5), ("800", 3.25), ("1K", 3.0), ("1K", 2.75), ("1.4K", 2.5)])  # fmt: skip
    facts, _ = parse("nanotron", text)
    assert [(fact.step, fact.loss) for fact in facts] == [(600, 3.5), (800, 3.25), (801, 3.0), (802, 2.75), (803, 2.5)]
    assert {fact.attempt for fact in facts} == {1}
    assert caplog.text.count("rounded") == 1


def test_shortened_numbers_are_read_in_full(parse):
    facts, _ = parse("nanotron", "iteration: 1510 / 9000 | consumed_tokens: 1.25B | lm_loss: 2.5 | lr: 0.00025\n")
    assert facts == [Step(1, 1510, loss=2.5, lr=0.00025, tokens_seen=1.25e9)]


def test_colours_between_key_and_value(parse):
    line = (
        "[rank3]:[titan] 2026-04-05 01:02:03,456 - root - INFO - \x1b[31mstep: 340  \x1b[32mloss:  2.71801  "
        "\x1b[38;2;180;60;0mgrad_norm:  0.9075  \x1b[38;2;54;234;195mmemory: 22.10GiB(27.90%)  \x1b[34mtps: 6,309  "
        "\x1b[36mtflops: 301.50  \x1b[35mmfu: 30.10%\x1b[39m\n"
    )
    facts, parser = parse("torchtitan", line)
    assert facts == [Step(1, 340, loss=2.71801, grad_norm=0.9075)]
    assert (parser.rank, parser.skipped) == ("[rank3]:", 0)


def test_literals_that_are_no_json_are_not_finite(parse):
    facts, parser = parse("jsonl", '{"step": 7, "loss": NaN, "grad_norm": -Infinity, "lr": 0.5}\n')
    assert facts == [Step(1, 7, lr=0.5, nonfinite=("loss", "grad_norm"))]
    assert parser.skipped == 0


def test_thousands_separators(parse):
    text = (
        "[step=1,640/???]\n    train/CE loss=1,057.5\n    throughput/total tokens=5,033,164\n"
        "    optim/total grad norm=nan\n"
    )
    facts, _ = parse("olmo", text)
    assert facts == [Step(1, 1640, loss=1057.5, tokens_seen=5033164.0, nonfinite=("grad_norm",))]


def test_a_number_with_a_comma_astray_is_not_guessed(parse):
    facts, parser = parse("olmo", "[step=4/9]\n    train/CE loss=5,03\n[step=5/9]\n    train/CE loss=2.5\n")
    assert facts == [Step(1, 5, loss=2.5)]
    assert parser.skipped == 1


def test_records_of_several_lines_keep_their_ranks_apart(parse):
    text = (
        "[rank0]:[step=4/9]\n[rank1]:[step=4/9]\n[rank0]:    train/CE loss=2.5\n[rank1]:    train/CE loss=7.5\n"
        "[rank1]:    optim/total grad norm=0.75\n[rank0]:    optim/total grad norm=0.5\n[rank0]:[step=5/9]\n"
    )
    facts, _ = parse("olmo", text)
    assert facts == [Step(1, 4, loss=2.5, grad_norm=0.5)]


def test_a_bracket_of_tokens_is_no_step(parse):
    facts, parser = parse("composer", "[token=90000/99999]:\n\t Train loss/train/total: 2.5\n")
    assert facts == []
    assert parser.skipped == 1


def test_a_progress_bar_tells_its_last_refresh(parse):
    bar = "Epoch 0:  10%|█| {at}/40 [00:01<00:09, 1.00it/s, loss={loss}]\r"
    text = "".join(bar.format(at=at, loss=loss) for at, loss in [(4, 2.5), (4, 2.25), (5, 2.25), (5, 2.125)])
    facts, _ = parse("lightning", text)
    assert facts == [Step(1, 4, loss=2.25), Step(1, 5, loss=2.125)]


def test_a_progress_bar_that_shows_nan_tells_it_at_once(parser_of):
    line = "Epoch 0:  10%|█| 4/40 [00:01<00:09, 1.00it/s, loss=nan]".encode()
    assert parser_of("lightning").feed(line) == [Step(1, 4, nonfinite=("loss",))]


def overflow(scale):
    return (
        f"[x] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss"
        f" scale: {scale}, reducing to {scale // 2}\n"
    )


def report(step):
    return f"[x] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=2, lr=[0.5, 0.5], mom=[(0.9, 0.95)]\n"


def test_overflows_stand_on_the_steps_they_can_be(parse):
    text = overflow(64) + overflow(32) + report(10) + report(20) + overflow(16) + report(30)
    facts, parser = parse("deepspeed", text)
    assert [(fact.step, fact.skipped, fact.loss_scale, fact.lr) for fact in facts] == [
        (8, True, 32.0, None),
        (9, True, 16.0, None),
        (10, False, None, 0.5),
        (20, False, None, 0.5),
        (21, True, 8.0, None),
        (30, False, None, 0.5),
    ]
    assert parser.skipped == 0


def test_an_overflow_on_every_step_until_the_end(parse):
    scales = [1024 >> at for at in range(10)]
    facts, _ = parse(
        "deepspeed", report(1) + report(2) + "".join(overflow(s) + report(3 + at) for at, s in enumerate(scales))
    )
    assert [(fact.step, fact.loss_scale) for fact in facts if fact.skipped] == [
        (3 + at, scale / 2) for at, scale in enumerate(scales)
    ]
    assert {fact.attempt for fact in facts} == {1}


def test_overflows_between_lines_of_the_pipeline_stand_after_them(parse):
    def line(step):
        return f"steps: {step} loss: 2.5 iter time (s): 0.5 samples/sec: 200.5\n"

    facts, _ = parse("deepspeed", line(1) + line(2) + overflow(64) + line(4) + overflow(32) + overflow(16))
    assert [(fact.attempt, fact.step, fact.loss_scale) for fact in facts] == [
        (1, 1, None), (1, 2, None), (1, 3, 32.0), (1, 4, None), (1, 5, 16.0), (1, 6, 8.0),
    ]  # fmt: skip


def test_a_run_that_dies_before_its_first_report_tells_its_overflows(parse):
    facts, _ = parse("deepspeed", overflow(4) + overflow(2) + "Exception: loss scale at minimum\n")
    assert [(fact.step, fact.loss_scale) for fact in facts] == [(1, 2.0), (2, 1.0)]


def test_hysteresis_and_the_fused_form_are_overflows(parse):
    text = (
        report(10) + report(20) + "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64,"
        " but hysteresis is 2. Reducing hysteresis to 1\n"
        "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 64.0, reducing to 32.0\n"
    )
    facts, _ = parse("deepspeed", text)
    assert [(fact.step, fact.loss_scale) for fact in facts[2:]] == [(21, 64.0), (22, 32.0)]


def test_rlhf_lines_count_on_over_epochs_and_may_be_negative(parse):
    line = "epoch: {}|step: {}|ppo_ep: 1|act_loss: {}|cri_loss: 0.5|unsuper_loss: 0.0\n"
    at = [(0, 0, -0.25), (0, 1, 0.5), (1, 0, -0.5), (1, 1, 0.25)]
    facts, _ = parse("deepspeed", "".join(line.format(*cells) for cells in at))
    assert [(fact.attempt, fact.step, fact.loss) for fact in facts] == [
        (1, 0, -0.25), (1, 1, 0.5), (1, 2, -0.5), (1, 3, 0.25),
    ]  # fmt: skip


def test_an_epoch_based_counter_counts_on(parse):
    facts, _ = parse("mmcv", "x - Epoch [2][10/50]\tlr: 1e-3, loss: 2.5\nx - Epoch(train)  [3][10/50]  loss: 2.25\n")
    assert [(fact.step, fact.loss) for fact in facts] == [(60, 2.5), (110, 2.25)]


def test_a_step_inside_a_string(parse):
    facts, _ = parse(
        "llamafactory", '{"loss": 1.5, "grad_norm": 0.25, "global_step/max_steps": "70/900", "epoch": 0.1}\n'
    )
    assert facts == [Step(1, 70, loss=1.5, grad_norm=0.25)]


def test_declared_keys(parse):
    from orchestrator.telemetry import jsonl

    parser = jsonl.parser(1, keys={"step": "n", "loss": "objective/total"})
    assert parser.feed(b'{"n": 4, "objective/total": 2.5, "loss": 9.5}') == [Step(1, 4, loss=2.5)]


def test_a_text_keeps_to_the_loss_it_began_with(parse):
    facts, _ = parse("jsonl", '{"step":1,"train_loss":2.5}\n{"step":2,"train_loss":2.25,"loss":9.5}\n')
    assert [fact.loss for fact in facts] == [2.5, 2.25]


@pytest.mark.parametrize("cell", ["1_000", "١٢", "0x1f", "1,5", "--1"])
def test_what_python_takes_for_a_number_is_not_always_one(parse, cell):
    facts, parser = parse("llmc", f"s:4 trl:{cell} lr:0.1 norm:0.5\n")
    assert facts == []
    assert parser.skipped == 1


def test_the_final_evaluation_of_megatron(parse):
    end = " validation loss at the end of training for test data | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 |\n"
    facts, _ = parse("megatron", MEGATRON.format(step=10, loss="2.75E+00") + "\n" + end)
    assert facts[-1] == Eval(1, 10, "test", 2.5)
