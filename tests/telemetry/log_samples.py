"""One written text a format, as the trainers print them, and what a careful reader takes from it."""

from collections.abc import Sequence
from typing import NamedTuple


class Sample(NamedTuple):
    text: str
    steps: list[tuple[int, int, float | None]]  # attempt, step, loss (None: not finite, or not told)
    evals: Sequence[tuple[int, str, float | None]] = ()
    skipped: int = 0  # lines of no known kind
    sealed: bool = True  # a line cut anywhere shows that it is cut


PATTERN = r"\[t=(?P<step>\d+)\] L=(?P<loss>\S+) g=(?P<grad_norm>\S+);"

SAMPLES = {
    "wire": Sample(
        '{"type":"run","schema":1,"attempt":1,"world_size":4,"start_step":40,"total_steps":900,"time":1.6e9}\n'
        '{"type":"step","step":41,"loss":3.25,"grad_norm":0.75,"lr":1e-4,"unheard_of":{"a":[1]}}\n'
        '{"type":"step","step":42,"loss":"nan","grad_norm":"inf","lr":1e-4,"nonfinite":3}\n'
        '{"type":"novelty","step":42}\n'
        '{"type":"shard","hash":77,"name":"web-7"}\n'
        '{"type":"eval","step":42,"name":"val","loss":3.5}\n'
        '{"type":"step","step":43,"loss":3.125}\n',
        [(1, 41, 3.25), (1, 42, None), (1, 43, 3.125)],
        [(42, "val", 3.5)],
        skipped=1,
    ),
    "csv": Sample(
        "step,loss,grad_norm,lr,val_loss\n"
        "10,4.5,0.9,0.001,\n"
        "20,4.25,0.8,0.001,\n"
        "20,,,,4.375\n"
        "30,4.125,0.7,0.001,\n"
        "40,nan,inf,0.001,\n"
        "50,,,0.001,\n",
        [(1, 10, 4.5), (1, 20, 4.25), (1, 30, 4.125), (1, 40, None), (1, 50, None)],
        [(20, "val_loss", 4.375)],
        sealed=False,
    ),
    "jsonl": Sample(
        '{"global_step": 7, "train/loss": 2.5, "train/grad_norm": 0.5}\n'
        '{"global_step": 8, "train/loss": NaN, "train/grad_norm": Infinity}\n'
        '{"global_step": 8, "eval/loss": 2.75}\n'
        "starting the next epoch\n"
        '{"global_step": 9, "train/loss": 2.25, "train/grad_norm": 0.5}\n',
        [(1, 7, 2.5), (1, 8, None), (1, 9, 2.25)],
        [(8, "eval/loss", 2.75)],
        skipped=1,
    ),
    "hf_trainer": Sample(
        "{'loss': 1.75, 'grad_norm': 0.8049170732498169, 'learning_rate': 3.1e-05, 'epoch': 0.2}            \n"
        "{'loss': '1.625', 'grad_norm': '0.4419', 'learning_rate': '3.0e-05', 'epoch': '0.4'}\n"
        "{'eval_loss': 1.5, 'eval_runtime': 9.5, 'epoch': 0.4}\n"
        "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 2.9e-05, 'epoch': 0.6}\n"
        "{'train_runtime': 60.5, 'train_loss': 1.1, 'epoch': 0.6}\n",
        [(1, 1, 1.75), (1, 2, 1.625), (1, 3, None)],
        [(2, "eval_loss", 1.5)],
    ),
    "megatron": Sample(
        " [2026-04-05 01:02:03.456789] iteration      300/    9000 | consumed samples:        76800 | elapsed time per"
        " iteration (ms): 512.5 | learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 3.500000E+00 |"
        " loss scale: 1.0 | grad norm: 0.625 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        "[default5]: iteration      301/    9000 | consumed tokens:    157286400 | learning rate: 1.500E-04 |"
        " lm loss: 3.437500E+00 | grad norm: 0.000 | number of skipped iterations:   0 |\n"
        "time (ms) | forward: 31.02\n"
        " validation loss at iteration 301 | lm loss value: 3.750000E+00 | lm loss PPL: 4.252108E+01 |\n"
        "[default5]: iteration      302/    9000 | consumed tokens:    157810688 | learning rate: 1.500E-04 |"
        " grad norm: 0.625 | number of skipped iterations:   0 |\n",
        [(1, 300, 3.5), (1, 301, 3.4375), (1, 302, None)],
        [(301, "validation", 3.75)],
    ),
    "torchtitan": Sample(
        "[rank0]:[titan] 2026-04-05 01:02:03,456 - root - INFO - \x1b[31mstep: 60  \x1b[32mloss:  4.12500  "
        "\x1b[38;2;180;60;0mgrad_norm:  0.8750  \x1b[38;2;54;234;195mmemory: 30.10GiB(37.90%)  "
        "\x1b[34mtps: 6,309  \x1b[36mtflops: 301.5  \x1b[35mmfu: N/A\x1b[39m\n"
        "[rank0]:[titan] 2026-04-05 01:02:04,456 - root - INFO - Saving the checkpoint\n"
        "[rank0]:[titan] 2026-04-05 01:02:05,456 - root - INFO - \x1b[31mvalidate step: 60  \x1b[32mloss:  4.2500  "
        "\x1b[38;2;54;234;195mmemory: 30.10GiB(37.90%)  \x1b[34mtps: 9,001\x1b[39m\n"
        "[titan] 2026-04-05 01:02:06,456 - root - INFO - step: 70  loss:  nan  grad_norm:  nan  memory: 3.1GiB(4%)\n",
        [(1, 60, 4.125), (1, 70, None)],
        [(60, "validate", 4.25)],
        skipped=1,
    ),
    "deepspeed": Sample(
        "[2026-04-05 01:02:03,456] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping"
        " step. Attempted loss scale: 4096, reducing to 2048\n"
        "[2026-04-05 01:02:04,456] [INFO] [logging.py:96:log_dist] [Rank 0] step=5, skipped=1, lr=[2e-05, 2e-05],"
        " mom=[(0.9, 0.95), (0.9, 0.95)]\n"
        "[2026-04-05 01:02:04,460] [INFO] [timer.py:199:stop] epoch=0/micro_step=5/global_step=5,"
        " RunningAvgSamplesPerSec=70.5, CurrSamplesPerSec=71.5, MemAllocated=3.1GB, MaxMemAllocated=21.4GB\n"
        "steps: 5 loss: 2.7500 iter time (s): 0.512 samples/sec: 215.5\n"
        "[2026-04-05 01:02:05,456] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, lr=[1e-05, 1e-05],"
        " mom=[(0.9, 0.95), (0.9, 0.95)]\n"
        "steps: 10 loss: 2.6250 iter time (s): 0.512 samples/sec: 215.5\n",
        [(1, 4, None), (1, 5, 2.75), (1, 10, 2.625)],
    ),
    "nanogpt": Sample(
        "step 0: train loss 10.9000, val loss 10.9500\n"
        "iter 0: loss 10.8750, time 3001.25ms, mfu -100.00%\n"
        "saving checkpoint to out\n"
        "iter 10: loss 9.7500, time 412.41ms, mfu 40.66%\n"
        "iter 20: loss nan, time 412.40ms, mfu 40.60%\n",
        [(1, 0, 10.875), (1, 10, 9.75), (1, 20, None)],
        [(0, "val", 10.95)],
        skipped=1,
    ),
    "nanogpt_speedrun": Sample(
        "import torch\n"
        "step:0/300 val_loss:10.8750 train_time:0ms step_avg:nanms\n"
        "step:1/300 train_loss:10.7500 train_time:2887ms step_avg:nanms\n"
        "step:2/300 train_loss:9.5000 train_time:2999ms step_avg:101.25ms\n"
        "step:3/300 train_loss:nan train_time:3110ms step_avg:101.50ms\n",
        [(1, 1, 10.75), (1, 2, 9.5), (1, 3, None)],
        [(0, "val", 10.875)],
        skipped=1,
    ),
    "llmc": Sample(
        "s:0 tel:10.9750\n"
        "s:0 trl:10.8750 lr:0.000003 norm:14.25\n"
        "s:1 trl:10.7500 lr:0.000006 norm:13.50\n"
        "s:2 eval:0.2475\n"
        "s:2 trl:nan lr:0.000009 norm:nan\n",
        [(1, 0, 10.875), (1, 1, 10.75), (1, 2, None)],
        [(0, "val", 10.975)],
        sealed=False,
    ),
    "litgpt": Sample(
        "Epoch 1 | iter 15 step 3 | loss train: 4.250, val: n/a | iter time: 300.25 ms remaining time: 0:04:11\n"
        "Epoch 1 | iter 16 step 4 | loss train: 4.125, val: n/a | iter time: 310.25 ms (step) remaining time: 0:04:10\n"
        "Epoch 1 | iter 17 step 4 | loss train: 4.500, val: n/a | iter time: 300.25 ms remaining time: 1 day, 0:04:09\n"
        "Epoch 1 | iter 20 step 5 | loss train: nan, val: 4.375 | iter time: 310.25 ms (step) remaining time: 0:04:08\n"
        "Epoch 1 | iter 24 step 6 | loss train: 4.000, val: 4.375 | iter time: 310.25 ms (step) remaining time: n/a\n",
        [(1, 3, 4.25), (1, 4, 4.125), (1, 5, None), (1, 6, 4.0)],
        [(5, "val", 4.375)],
    ),
    "nanotron": Sample(
        "04/05 01:02:03 [INFO|DP=0|PP=0|TP=0]: \x1b[2miteration: 1501 / 9000 | consumed_tokens: 1.5B |"
        " time_per_iteration_ms: 612 | tokens_per_sec: 2.1M | global_batch_size: 1.05M | lm_loss: 2.75 | lr: 0.00025 |"
        " model_tflops_per_gpu: 350 | grad_norm: 0.5 | eta: 9:10:12\x1b[0m\n"
        "04/05 01:02:04 [INFO|DP=0|PP=0|TP=0]: iteration: 1502 / 9000 | consumed_tokens: 1.5B |"
        " lm_loss: nan | lr: 0.00025 | grad_norm: nan | eta: 9:10:11\n",
        [(1, 1501, 2.75), (1, 1502, None)],
        sealed=False,
    ),
    "olmo": Sample(
        "2026-04-05 01:02:03.456 node-1:0 olmo.train:800\tINFO\t[step=640/739,000]\n"
        "    train/CrossEntropyLoss=3.250\n"
        "    train/Perplexity=25.79\n"
        "    throughput/total_tokens=2,684,354,560\n"
        "    optim/total_grad_norm=0.3125\n"
        "[step=641/???,epoch=1,eta=2d4h]\n"
        "    train/CE loss=nan\n"
        "    train/PPL=57,312\n"
        "    optim/total grad norm=0.2500\n"
        "    optim/LR (group 0)=0.0003\n"
        "Saving a checkpoint\n",
        [(1, 640, 3.25), (1, 641, None)],
        skipped=1,
        sealed=False,
    ),
    "levanter": Sample(
        '2026-04-05T01:02:03 INFO {"tracker": "json_logger", "event": "hparams", "hparams": {"lr": 1}}\n'
        '2026-04-05T01:02:04 INFO {"tracker": "json_logger", "event": "log", "step": 610,'
        ' "metrics": {"train/loss": 3.375, "optim/learning_rate": 0.00025}}\n'
        '2026-04-05T01:02:05 INFO {"tracker": "json_logger", "event": "log", "step": 611,'
        ' "metrics": {"train/loss": NaN, "optim/learning_rate": 0.00025}}\n'
        '{"tracker": "json_logger", "event": "log", "step": 611, "metrics": {"eval/loss": 3.5}}\n',
        [(1, 610, 3.375), (1, 611, None)],
        [(611, "eval/loss", 3.5)],
    ),
    "composer": Sample(
        "[batch=81/4000]:\n"
        "\t Train time/batch: 80\n"
        "\t Train loss/train/total: 5.1250\n"
        "\t Train l2_norm/grad/global: 0.7500\n"
        "\t Train lr-DecoupledAdamW/group0: 0.0001\n"
        "[Eval batch=40/40] Eval on held_out data:\n"
        "\t Eval metrics/held_out/eval/LanguageCrossEntropy: 5.2500\n"
        "[token=169869312/90000000]:\n"
        "\t Train time/batch: 81\n"
        "\t Train loss/train/total: nan\n",
        [(1, 81, 5.125), (1, 82, None)],
        [(81, "metrics/held_out/eval/LanguageCrossEntropy", 5.25)],
        sealed=False,
    ),
    "lightning": Sample(
        "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 30.00it/s]\n"
        "Epoch 1:   2%|▏         | 1/50 [00:01<00:49,  1.00it/s, v_num=2, train_loss=3.000]\r"
        "Epoch 1:   4%|▍         | 2/50 [00:02<00:48,  1.00it/s, v_num=2, train_loss=3.000]\r"
        "Epoch 1:   4%|▍         | 2/50 [00:02<00:48,  1.00it/s, v_num=2, train_loss=2.875]\r"
        "Epoch 1:   6%|▌         | 3/50 [00:03<00:47,  1.00it/s, v_num=2, train_loss=nan.0]\r"
        "Epoch 1:   6%|▌         | 3/50 [00:03<00:47,  1.00it/s, v_num=2, train_loss=nan, val_loss=3.250]\r"
        "Epoch 1:   8%|▊         | 4/50 [00:04<00:46,  1.00it/s, v_num=2, train_loss=2.750, val_loss=3.250]\n",
        [(1, 51, 3.0), (1, 52, 2.875), (1, 53, None), (1, 54, 2.75)],
        [(53, "val_loss", 3.25)],
        skipped=1,
    ),
    "nemo": Sample(
        "Training epoch 0, iteration 610/9000 | lr: 0.0001489 | global_batch_size: 256 | global_step: 610 |"
        " reduced_train_loss: 3.125 | train_step_timing in s: 0.6124\n"
        "Training epoch 0, iteration 611/9000 | lr: 0.000149 | global_batch_size: 256 | global_step: 611 |"
        " reduced_train_loss: nan | train_step_timing in s: 0.6 | consumed_samples: 156416 | val_loss: 3.25\n",
        [(1, 610, 3.125), (1, 611, None)],
        [(611, "val_loss", 3.25)],
        sealed=False,
    ),
    "llamafactory": Sample(
        '{"current_steps": 60, "total_steps": 900, "loss": 1.625, "eval_loss": null, "learning_rate": 3.1e-05,'
        ' "epoch": 0.1, "percentage": 6.7, "elapsed_time": "0:10:04", "remaining_time": "1 day, 1:27:11"}\n'
        '{"current_steps": 60, "total_steps": 900, "loss": null, "eval_loss": 1.75, "learning_rate": null}\n'
        '{"current_steps": 70, "total_steps": 900, "loss": 1.5, "eval_loss": null, "learning_rate": 3e-05}\n',
        [(1, 60, 1.625), (1, 70, 1.5)],
        [(60, "eval_loss", 1.75)],
    ),
    "mmcv": Sample(
        "2026-04-05 01:02:03,456 - mmdet - INFO - Iter [610/9000]\tlr: 3.200e-04, eta: 1 day, 2:27:11, time: 1.950,"
        " memory: 9120, loss_cls: 0.5000, loss_bbox: 0.6250, loss: 1.1250, grad_norm: 4.5000\n"
        "2026-04-05 01:02:04,456 - mmdet - INFO - Iter [620/9000]\tlr: 3.200e-04, loss: nan, grad_norm: nan\n"
        "04/05 01:02:05 - mmengine - INFO - Iter(val) [ 50/100]  eta: 0:00:10  time: 0.1\n"
        "04/05 01:02:06 - mmengine - INFO - Iter(train) [ 630/9000]  lr: 3.1000e-04  grad_norm: 4.2500  loss: 1.0000\n",
        [(1, 610, 1.125), (1, 620, None), (1, 630, 1.0)],
        sealed=False,
    ),
    "returnn": Sample(
        "[default2]:ep 3 train, step 0, ce 4.250, ctc_4 5.125, grad_norm:p2 2.050, mem_usage:cuda:2 20.1GB,"
        " 0.700 sec/step, complete 0.20%\n"
        "[default2]:ep 3 train, step 1, ce 4.125, ctc_4 5.0, grad_norm:p2 1.750, mem_usage:cuda:2 20.1GB,"
        " 0.700 sec/step, elapsed 0:00:01, exp. remaining 0:10:00, complete 0.40%\n"
        "[default2]:ep 3 dev eval, step 0, ce 4.500, ctc_4 5.250, 0.300 sec/step, complete 50.0%\n"
        "[default2]:ep 4 train, step 0, ce nan, ctc_4 nan, grad_norm:p2 nan, mem_usage:cuda:2 20.1GB,"
        " 0.700 sec/step, complete 0.20%\n"
        "[default2]:ep 4 train, step 1, ce 4.0, ctc_4 4.75, grad_norm:p2 1.5, 0.700 sec/step, complete 0.40%\n"
        "Memory usage (cuda:2): alloc cur 12.5GB\n",
        [(1, 0, 4.25), (1, 1, 4.125), (1, 2, None), (1, 3, 4.0)],
        skipped=1,
    ),
    "llamafactory:ms-swift": Sample(
        '{"loss": 2.25, "grad_norm": 0.5, "learning_rate": 3.1e-05, "epoch": 0.1, "global_step/max_steps": "60/900"}\n'
        '{"eval_loss": 2.5, "eval_runtime": 9.5, "epoch": 0.1, "global_step/max_steps": "60/900"}\n'
        '{"loss": NaN, "grad_norm": NaN, "learning_rate": 3.1e-05, "epoch": 0.2, "global_step/max_steps": "70/900"}\n',
        [(1, 60, 2.25), (1, 70, None)],
        [(60, "eval_loss", 2.5)],
    ),
    "deepspeed:chat": Sample(
        "epoch: 0|step: 0|ppo_ep: 1|act_loss: -0.25|cri_loss: 0.0310|unsuper_loss: 0.0\n"
        "epoch: 0|step: 1|ppo_ep: 1|act_loss: 0.125|cri_loss: 0.0310|unsuper_loss: 0.0\n"
        "average reward score: 1.5\n"
        "epoch: 1|step: 0|ppo_ep: 1|act_loss: nan|cri_loss: nan|unsuper_loss: 0.0\n",
        [(1, 0, -0.25), (1, 1, 0.125), (1, 2, None)],
        skipped=1,
    ),
    "deepspeed:scaler": Sample(
        "steps: 5 loss: 2.7500 iter time (s): 0.512 samples/sec: 215.5\n"
        "steps: 10 loss: 2.6250 iter time (s): 0.512 samples/sec: 215.5\n"
        "[2026-04-05 01:02:03,456] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step."
        " Attempted loss scale: 4096, but hysteresis is 2. Reducing hysteresis to 1\n"
        "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 4096.0, reducing to"
        " 2048.0\n"
        "steps: 15 loss: 2.5000 iter time (s): 0.512 samples/sec: 215.5\n",
        [(1, 5, 2.75), (1, 10, 2.625), (1, 11, None), (1, 12, None), (1, 15, 2.5)],
    ),
    "regex": Sample(
        "[t=5] L=2.5 g=0.5;\nnothing of the kind\n[t=6] L=nan g=inf;\n",
        [(1, 5, 2.5), (1, 6, None)],
        skipped=1,
    ),
}
