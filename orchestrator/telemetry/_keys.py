"""The names under which trainers log what a Step holds, and the reading of step numbers."""

import logging
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from orchestrator.telemetry._line import number

_log = logging.getLogger(__name__)

# In each row the first name that a text has wins; names are compared as `flat` writes them.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "step": (
        "step", "global_step", "trainer/global_step", "train/global_step", "current_steps", "iteration", "iter",
        "_step", "steps", "global_step/max_steps", "iter_num", "num_updates",
    ),
    "loss": (
        "loss", "train_loss", "train/loss", "training_loss", "lm_loss", "train/lm_loss", "reduced_train_loss",
        "train/ce_loss", "train/crossentropyloss", "loss/train/total", "loss_metrics/global_avg_loss", "train/ctc_loss",
        "train_loss_step", "train/loss_step", "loss_step", "train/total_loss", "total_loss", "train_inner/loss",
    ),
    "grad_norm": (
        "grad_norm", "train/grad_norm", "gradnorm", "gradient_norm", "global_grad_norm", "train/global_grad_norm",
        "total_grad_norm", "optim/total_grad_norm", "l2_norm/grad/global", "grad/norm/total", "gnorm", "grdn",
        "train_inner/gnorm",
    ),
    "lr": (
        "lr", "train/lr", "learning_rate", "train/learning_rate", "optim/learning_rate", "optim/lr",
        "optim/lr_(group_0)", "optim/learning_rate_group0", "train_inner/lr",
    ),
    "loss_scale": ("loss_scale", "train/loss_scale"),
    "tokens_seen": (
        "tokens_seen", "n_tokens_seen", "consumed_tokens", "num_input_tokens_seen", "train/num_input_tokens_seen",
        "throughput/total_tokens", "total_tokens", "throughput/total_tokens_seen",
    ),
    "tokens": ("tokens",),
    "param_norm": ("param_norm", "params_norm", "params/norm/total"),
    "update_norm": ("update_norm",),
    "clip": ("clip",),
}  # fmt: skip
_PLACES = {name: (field, place) for field, names in _NAMES.items() for place, name in enumerate(names)}
_RATE = re.compile(r"(?:train/)?lr[-/]\w+(?:/pg\d+|/group\d+)?")
_HELD_OUT = {"val", "valid", "validation", "eval", "evaluation", "test", "dev"}
_LOSSES = {"loss", "crossentropy", "languagecrossentropy", "crossentropyloss"}


def flat(name: str) -> str:
    """A name as it is compared: lower case, blanks and hyphens as underscores.

    >>> flat(" lm-Loss")
    'lm_loss'
    """
    return name.strip().lower().replace(" ", "_").replace("-", "_")


class Role(NamedTuple):
    """What a column or key is: a field of a Step ("step" included), or "eval"; the lower place is preferred."""

    field: str
    place: int = 0


@lru_cache(maxsize=4096)
def role(name: str) -> Role | None:
    """The role of a name as a trainer writes it, None for all that is no record's business.

    >>> role("train/loss"), role("val_loss"), role("val_loss_time")
    (Role(field='loss', place=2), Role(field='eval', place=0), None)
    """
    known = _PLACES.get(flat(name))
    if known:
        return Role(*known)
    if _RATE.fullmatch(name.lower()):
        return Role("lr", 1000)
    words = re.split(r"[/_.\-\s]+", name.strip().lower())
    if words[-1] in _LOSSES and not _HELD_OUT.isdisjoint(words):
        return Role("eval")
    return None


def chosen(names: Iterable[str]) -> dict[str, str]:
    """Of many names, the one that stands for each field: {field: name}; evaluations are not among them."""
    return dict(_chosen(tuple(names)))


@lru_cache(maxsize=128)  # the lines of a text mostly hold the same names
def _chosen(names: tuple[str, ...]) -> dict[str, str]:
    best: dict[str, tuple[int, str]] = {}
    for name in names:
        what = role(name)
        if what and what.field != "eval" and (what.field not in best or what.place < best[what.field][0]):
            best[what.field] = (what.place, name)
    return {field: name for field, (_, name) in best.items()}


class StepKey:
    """Reads step numbers; a rounded one (15K) is refused for good: from then on records are counted.

    >>> key = StepKey()
    >>> key.read("7"), key.read("120/1000"), key.read(121.0), key.read("15K"), key.read("15K")
    (7, 120, 121, 122, 123)
    """

    _EXACT = re.compile(r"\s*(\d{1,15})(?:\.0*)?(?:\s*/\s*(?:\d+|\?+))?\s*", re.ASCII)
    _ROUNDED = re.compile(r"\s*\d+(?:\.\d+)?\s*[KMBT]\s*(?:/.*)?", re.ASCII)

    def __init__(self) -> None:
        self._last = 0
        self._counting = False

    def read(self, raw: object) -> int:
        """The step; ValueError when the cell holds no step at all."""
        if not self._counting:
            self._last = self._exact(raw)
        return self._last if not self._counting else self.count("")

    def count(self, why: str) -> int:
        """The next number where a text has no step that can be used; warns the first time when told why."""
        if why and not self._counting:
            _log.warning("%s: counting records instead", why)
        self._counting = True
        self._last += 1
        return self._last

    def _exact(self, raw: object) -> int:
        if isinstance(raw, str):
            if found := self._EXACT.fullmatch(raw):
                return int(found[1])
            if self._ROUNDED.fullmatch(raw):
                self._counting = True
                _log.warning(
                    "the step %r is rounded and cannot tell records apart: counting records instead", raw.strip()
                )
                return self._last
        elif isinstance(raw, int | float) and not isinstance(raw, bool) and 0 <= raw < 1e15 and raw == int(raw):
            return int(raw)
        raise ValueError(f"no step: {raw!r}")


def value(raw: object) -> float | None:
    """A number from a cell or a JSON value; None when it is blank, ValueError when it is no number.

    >>> value("1.203"), value(""), value(None), value("NaN")
    (1.203, None, None, nan)
    """
    if isinstance(raw, str):
        return number(raw) if raw else None
    if raw.__class__ is float or raw.__class__ is int:  # not bool
        return float(raw)
    if raw is None:
        return None
    raise ValueError(f"no number: {raw!r}")
