"""What the exact tokens in a job's command line stand for, worked out anew at every launch.

{checkpoint}  what to resume from; empty when fresh      {attempt}     the attempt's number
{step}        the step it resumes from                   {quarantine}  the file of shards to leave out
{lr}          the rate with all cuts                     {skip}        steps to leave out, "121,122,..." or empty
{lr_scale}    the product of the cuts alone              {run_dir}     the run directory
{clip}        the limit of the gradient norm
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.core.policy import Policy
from orchestrator.core.schedule import clip_at, lr_scale
from orchestrator.core.state import Levels


class Own(NamedTuple):
    """The rate and the limit that the trainer would use by itself, where the configuration tells."""

    lr: float | None = None
    clip: float | None = None


class Start(NamedTuple):
    """One launch: which attempt, from where, and whether the hook acts in it."""

    attempt: int
    step: int
    checkpoint: str
    hook: bool


def tokens(policy: Policy, levels: Levels, start: Start, own: Own) -> dict[str, str]:
    """Every token whose value is known; `{lr}` or `{clip}` is missing where neither policy nor trainer has one.

    >>> from orchestrator.core.facts import Cut
    >>> known = tokens(Policy(), Levels(cuts=(Cut(0.5, 40),)), Start(2, 40, "ck/40", hook=False), Own(lr=6e-4))
    >>> known["{lr}"], known["{lr_scale}"], known["{step}"], "{clip}" in known
    ('0.0003', '0.5', '40', False)
    """
    scale = 1.0 if start.hook else lr_scale(levels.cuts, start.step + 1)
    clip_scale = 1.0 if start.hook else levels.clip_scale
    found = {
        "{checkpoint}": start.checkpoint, "{step}": str(start.step), "{attempt}": str(start.attempt),
        "{lr_scale}": repr(scale), "{skip}": ",".join(map(str, skipped(levels.windows, start.step))),
    }  # fmt: skip
    peak = own.lr if own.lr is not None else policy.schedule.peak if policy.schedule is not None else None
    if peak is not None:
        found["{lr}"] = f"{peak * scale:.12g}"
    clip = clip_at(policy, start.step + 1, clip_scale)
    if clip is None and own.clip is not None:
        clip = own.clip * clip_scale
    if clip is not None:
        found["{clip}"] = f"{clip:.12g}"
    return found


def skipped(windows: Sequence[tuple[int, int]], after: int) -> list[int]:
    """The steps of all windows that are still to come, each once.

    >>> skipped([(3, 5), (5, 6)], after=3)
    [4, 5, 6]
    """
    return sorted({step for low, high in windows for step in range(max(low, after + 1), high + 1)})


def command(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The words of one launch. A word that is `{skip}` alone becomes one word a step; none, and its option goes too.

    >>> command(["t", "--no", "{skip}", "--lr={lr}"], {"{skip}": "4,5", "{lr}": "0.1"})
    ['t', '--no', '4', '5', '--lr=0.1']
    >>> command(["t", "--no", "{skip}", "--lr={lr}"], {"{skip}": "", "{lr}": "0.1"})
    ['t', '--lr=0.1']
    """
    found: list[str] = []
    for word in words:
        if word != "{skip}":
            found.append(filled(word, values))
        elif values["{skip}"]:
            found += values["{skip}"].split(",")
        elif found and found[-1].startswith("-"):
            found.pop()
    return found


def filled(word: str, values: Mapping[str, str]) -> str:
    """A word of the command with our exact tokens replaced; every other brace stays.

    >>> filled("--ckpt={checkpoint} {other}", {"{checkpoint}": "a/b"})
    '--ckpt=a/b {other}'
    """
    for token, value in values.items():
        word = word.replace(token, value)
    return word
