"""What other runs met: the incidents of the runs that a configuration names under `history`."""

from pathlib import Path

from orchestrator.core.verdict import SPIKES, Past
from orchestrator.errors import ConfigError
from orchestrator.review.status import known


def past(history: object, root: Path) -> tuple[Past, ...]:
    """The spikes of these run directories, relative ones below `root`.

    ConfigError where `history` is no list of names, RunDirError where one of them holds no run.
    """
    names = history or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"history: write a list of run directories, such as [runs/first]; got {history!r}")
    return tuple(met for name in names for met in _met(name, root / name))


def _met(name: str, path: Path) -> list[Past]:
    _, state, _ = known(path)
    spikes = [i for i in state.incidents if i.merged is None and i.cls in SPIKES]
    return [Past(name, i.cls, i.onset, i.shards) for i in spikes]
