"""A folder of TensorBoard event files: scalars, also those stored as tensors, merged by step.

Events of all files are read in the order of their wall time. A tag whose step falls back begins the next
attempt. Subfolders such as `validation/` name the evaluations in them.
"""

import logging
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.core.facts import Announced, Eval, Fact, step_of
from orchestrator.errors import PluginError
from orchestrator.telemetry._keys import chosen, role
from orchestrator.telemetry._line import unmask

_log = logging.getLogger(__name__)


class _Point(NamedTuple):
    time: float
    tag: str
    step: int
    value: float


def read(path: str | Path, attempt: int = 1) -> Iterator[Fact]:
    """The facts of a folder (or one file) in order; PluginError where nothing can be read."""
    path = Path(path)
    files = [path] if path.is_file() else sorted(path.rglob("*tfevents*"))
    if not files:
        raise PluginError(f"{path} holds no TensorBoard event file (*tfevents*)")
    points = [point for file in files for point in _points(file, _group(file, path))]
    if len(files) > 1:
        points.sort(key=lambda point: point.time)
    names = {name: field for field, name in chosen(dict.fromkeys(point.tag for point in points)).items()}
    names = {name: field for name, field in names.items() if field != "step"}
    for number, rows in enumerate(_attempts(points, names)):
        if number and rows:
            yield Announced(attempt + number, max(min(rows) - 1, 0))
        for step in sorted(rows):
            yield from _facts(attempt + number, step, rows[step], names)


def _facts(attempt: int, step: int, row: dict[str, _Point], names: dict[str, str]) -> Iterator[Fact]:
    values = {names[tag]: point.value for tag, point in row.items() if tag in names}
    if values:
        yield step_of(attempt, step, unmask(values), time=max(point.time for point in row.values()))
    for tag, point in row.items():
        if tag not in names:
            yield Eval(attempt, step, tag, point.value if math.isfinite(point.value) else None, point.time)


def _attempts(points: Iterable[_Point], names: dict[str, str]) -> list[dict[int, dict[str, _Point]]]:
    """Per attempt its rows by step; of several points of a tag at a step the first counts."""
    attempts: list[dict[int, dict[str, _Point]]] = [{}]
    last: dict[str, tuple[int, int]] = {}  # per tag its attempt and step
    for point in points:
        of_training = point.tag in names
        if not of_training and not _held_out(point.tag):
            continue
        number, step = last.get(point.tag, (0, -1))
        number = number + 1 if of_training and point.step < step else max(number, len(attempts) - 1)
        if number == len(attempts):
            attempts.append({})
        last[point.tag] = (number, point.step)
        attempts[number].setdefault(point.step, {}).setdefault(point.tag, point)
    return attempts


def _held_out(tag: str) -> bool:
    what = role(tag)
    return what is not None and what.field == "eval"


def _group(file: Path, root: Path) -> str:
    """The prefix that a subfolder gives its tags: `validation/` where it holds evaluations, else none."""
    folder = file.parent.name if file.parent != root and file != root else ""
    return f"{folder}/" if _held_out(f"{folder}/loss") else ""


def _points(file: Path, group: str) -> Iterator[_Point]:
    try:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError as error:
        raise PluginError(
            "reading TensorBoard files needs the package `tensorboard`: pip install tensorboard"
        ) from error
    try:
        for event in LegacyEventFileLoader(str(file)).Load():
            for item in event.summary.value:
                value = _scalar(item, make_ndarray)
                if value is not None and event.step >= 0:
                    yield _Point(event.wall_time, group + item.tag, event.step, value)
    except DecodeError as error:
        _log.warning("%s is damaged, its rest is left out: %s", file, error)


def _scalar(item: Any, make_ndarray: Any) -> float | None:
    """The value of a scalar summary; None for images, histograms, texts."""
    if item.WhichOneof("value") == "simple_value":
        return float(item.simple_value)
    if item.WhichOneof("value") != "tensor" or item.metadata.plugin_data.plugin_name not in ("scalars", ""):
        return None
    if item.tensor.dtype not in (1, 2, 3, 9, 19):  # float32, float64, int32, int64, float16
        return None
    array = make_ndarray(item.tensor)
    return float(array.reshape(-1)[0]) if array.size == 1 else None
