"""A training script that knows nothing of supervision: one file, one checkpoint overwritten in place, a log to read.

    python nano.py --out_dir=out [--init_from=resume] [--learning_rate=0.1] [--max_iters=300]

Iteration N prints the loss before its update. From iteration 150 on the data has a larger scale, for which a rate
of 0.1 is too high: the loss runs away. At half of it training goes on.
"""

import os
import sys
import time

import torch

out_dir = "out"
init_from = "scratch"
learning_rate = 0.1
grad_clip = 0.0
max_iters = 300
eval_interval = 60
harder_from = 150

for argument in sys.argv[1:]:
    name, _, value = argument.removeprefix("--").partition("=")
    if name not in globals():
        raise SystemExit(f"unknown option {argument}")
    globals()[name] = type(globals()[name])(value)

torch.manual_seed(1337)
os.makedirs(out_dir, exist_ok=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
iter_num = 0
if init_from == "resume":
    checkpoint = torch.load(os.path.join(out_dir, "ckpt.pt"))
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    iter_num = checkpoint["iter_num"]
target = torch.linspace(-1.0, 1.0, 8)


def get_batch(number):
    source = torch.Generator().manual_seed(number)
    x = torch.randn(512, 8, generator=source) * (3.4 if number >= harder_from else 1.0)
    y = x @ target + 0.5 + torch.randn(512, generator=source)
    return x, y.unsqueeze(1)


while True:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    if iter_num % eval_interval == 0 and iter_num > 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": iter_num}
        torch.save(state, os.path.join(out_dir, "ckpt.pt"))
    began = time.time()
    x, y = get_batch(iter_num)
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    if grad_clip:
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    time.sleep(0.04)
    print(
        f"iter {iter_num}: loss {loss.item():.4f}, time {(time.time() - began) * 1000:.2f}ms, mfu -100.00%", flush=True
    )
    iter_num += 1
    if iter_num > max_iters:
        break
