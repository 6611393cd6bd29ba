"""Case files: YAML to cases, every error with its place.

    policy: pretrain          # the file's own name where it is left out
    cases:
      - name: one bad batch is written down
        loss: 3.2~0.02x200 9 3.2~0.02x50
        expect:
          - {class: isolated, onset: 201, actions: [record]}
      - name: a healthy curve
        loss: 5-0.01x200 3~0.02x300
        expect: []            # silence

A case holds the series of its first attempt, or `attempts:`, a list of such series: each next one goes on
from where the policy relaunched the one before.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from orchestrator.core.units import seconds
from orchestrator.errors import ConfigError, PolicyError
from orchestrator.review.cases import series
from orchestrator.store import policy_text, yaml_text
from orchestrator.store.yaml_text import Finding, Text

SERIES = ("loss", "grad_norm", "lr", "clip", "loss_scale", "skipped", "phase", "ranks", "ends", "silence")
CASE = ("name", "set", "every", "pace", "checkpoints", "shards", "attempts", "expect", *SERIES)
EXPECT = ("class", "severity", "onset", "detected", "end", "rank", "events", "actions")
ENDS = ("completed", "crash", "oom", "disk_full", "preemption", "host")


@dataclass(frozen=True)
class Attempt:
    """The series of one attempt, and how it ends."""

    values: dict[str, tuple[float | None, ...]]
    phase: tuple[str | None, ...] = ()
    ranks: dict[int, tuple[float | None, ...]] = field(default_factory=dict)
    ends: str = ""
    silence: float = 0.0

    @property
    def length(self) -> int:
        """How many records it has."""
        return max([len(self.phase), *map(len, self.values.values()), *map(len, self.ranks.values())], default=0)


@dataclass(frozen=True)
class Case:
    """One case: what happens, and what must be decided."""

    name: str
    line: int
    attempts: tuple[Attempt, ...]
    expect: tuple[dict[str, Any], ...]
    overrides: tuple[str, ...] = ()
    every: int = 1
    pace: float = 1.0
    checkpoints: tuple[int, ...] | None = None
    shards: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseFile:
    """A file of cases and the policy they are about."""

    path: Path
    policy: Path
    cases: tuple[Case, ...]


def read(path: Path) -> CaseFile:
    """The cases of a file; PolicyError with every finding, one a line."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    text = yaml_text.parse(source, str(path))
    reader = _Reader(text)
    cases = reader.cases()
    if text.findings:
        raise PolicyError("\n".join(map(str, sorted(text.findings, key=lambda f: f.mark))))
    name = text.value.get("policy", path.name.removesuffix(".yaml").removesuffix(".cases"))
    return CaseFile(path, _policy(path, str(name)), cases)


def _policy(path: Path, name: str) -> Path:
    """A policy by its name beside the cases, or wherever policies are found."""
    beside = path.parent / f"{name}.yaml"
    return beside if beside.is_file() else policy_text.locate(name)


class _Reader:
    """Reads a parsed text; what is wrong is added to its findings."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def cases(self) -> tuple[Case, ...]:
        value = self._text.value
        if not isinstance(value, dict) or not isinstance(value.get("cases"), tuple):
            if not self._text.findings:
                self._wrong((), "a case file holds `cases:`, a list")
            return ()
        self._known((), value, ("policy", "cases"))
        found = [self._case(("cases", i), item) for i, item in enumerate(value["cases"])]
        return tuple(case for case in found if case is not None)

    def _case(self, path: yaml_text.Path, raw: Any) -> Case | None:
        if not isinstance(raw, dict) or "expect" not in raw:
            self._wrong(path, "a case is a mapping with `expect:`, a list (empty: silence)")
            return None
        self._known(path, raw, CASE)
        given = self._of((*path, "attempts"), raw.get("attempts"), tuple)
        attempts = [((*path, "attempts", i), item) for i, item in enumerate(given or ())] or [(path, raw)]
        saves = self._of((*path, "checkpoints"), raw.get("checkpoints"), tuple)
        return Case(
            name=str(raw.get("name", f"case {path[-1]}")),
            line=self._text.mark(path).line,
            attempts=tuple(self._attempt(where, item) for where, item in attempts),
            expect=self._expected((*path, "expect"), raw["expect"]),
            overrides=tuple(f"{key}={_plain(value)}" for key, value in self._mapping(path, raw, "set").items()),
            every=max(self._value((*path, "every"), int, raw.get("every", 1)) or 1, 1),
            pace=self._value((*path, "pace"), seconds, raw.get("pace", "1s")) or 1.0,
            checkpoints=None if saves is None else tuple(s for s in saves if isinstance(s, int)),
            shards={k: v for k, v in self._mapping(path, raw, "shards").items() if isinstance(v, int) and v > 0},
        )

    def _attempt(self, path: yaml_text.Path, raw: Any) -> Attempt:
        if not isinstance(raw, dict):
            self._wrong(path, "an attempt is a mapping of series")
            return Attempt({})
        if path[-2] == "attempts":
            self._known(path, raw, SERIES)
        names = [name for name in SERIES[:6] if name in raw]
        read = {name: self._value((*path, name), series.numbers, str(raw[name])) or () for name in names}
        ranks = self._mapping(path, raw, "ranks")
        ends = str(raw.get("ends", ""))
        if ends and ends not in ENDS:
            self._wrong((*path, "ends"), f"{ends!r} is none of {', '.join(ENDS)}")
        return Attempt(
            read,
            self._value((*path, "phase"), series.words, str(raw.get("phase", ""))) or (),
            {
                self._value((*path, "ranks", rank), int, rank) or 0: self._value(
                    (*path, "ranks", rank), series.numbers, str(text)
                )
                or ()
                for rank, text in ranks.items()
            },
            ends,
            self._value((*path, "silence"), seconds, raw["silence"]) or 0.0 if "silence" in raw else 0.0,
        )

    def _expected(self, path: yaml_text.Path, raw: Any) -> tuple[dict[str, Any], ...]:
        if not isinstance(raw, tuple) or not all(isinstance(item, dict) for item in raw):
            self._wrong(path, "expect is a list of incidents, such as {class: isolated, actions: [record]}")
            return ()
        for i, item in enumerate(raw):
            self._known((*path, i), item, EXPECT)
        return raw

    def _of(self, path: yaml_text.Path, raw: Any, kind: type) -> Any:
        """A value of a kind, or None (said as a finding where it is of another)."""
        if raw is None or isinstance(raw, kind):
            return raw
        self._wrong(path, f"expected a {'list' if kind is tuple else 'mapping'}, got {raw!r}")
        return None

    def _mapping(self, path: yaml_text.Path, raw: dict[str, Any], key: str) -> dict[str, Any]:
        return self._of((*path, key), raw.get(key), dict) or {}

    def _value(self, path: yaml_text.Path, read: Callable[[Any], Any], raw: Any) -> Any:
        try:
            return read(raw)
        except (ValueError, TypeError) as error:
            self._wrong(path, str(error))
            return None

    def _known(self, path: yaml_text.Path, raw: dict[str, Any], known: tuple[str, ...]) -> None:
        for key in raw:
            if key not in known:
                near = get_close_matches(str(key), known, 1)
                self._wrong((*path, key), f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))

    def _wrong(self, path: yaml_text.Path, message: str) -> None:
        mark = self._text.keys.get(path, self._text.mark(path))
        self._text.findings.append(Finding(mark, "ORC020", message))


def _plain(value: Any) -> str:
    from orchestrator.store.policy_write import flow

    return re.sub(r"\n", " ", flow(value))
