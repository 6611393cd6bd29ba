"""From a Policy back to values as a person writes them, units and all: the inverse of reading.

Everything is written, defaults included: two policies are the same exactly when these values are.
"""

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from orchestrator import registry
from orchestrator.core.policy import Policy, Response
from orchestrator.core.units import Cadence, Unit, share


def unparsed(policy: Policy) -> dict[str, Any]:
    """A whole policy as written values.

    >>> from orchestrator.core.policy import Policy
    >>> unparsed(Policy())["checkpoints"]["healthy_after"]
    '300 steps'
    """
    raw: dict[str, Any] = _dataclass(policy)
    raw["detectors"] = {name: _detector(spec) for name, spec in policy.detectors.items()}
    return raw


def _detector(spec: Mapping[str, object]) -> dict[str, Any]:
    hints = _hints(registry.load("detectors", str(spec["kind"])).Plugin)
    return {key: _value(value, hints.get(key)) for key, value in spec.items()}


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _dataclass(value: Any) -> Any:
    if isinstance(value, Response):
        return response(value)
    cls: Any = type(value)
    hints = _hints(cls)
    return {f.name.rstrip("_"): _value(getattr(value, f.name), hints[f.name]) for f in dataclasses.fields(value)}


def _value(value: Any, hint: Any) -> Any:
    """A value as it is written where the schema wants `hint`."""
    if isinstance(value, Cadence):
        return cadence(value)
    if dataclasses.is_dataclass(value):
        return _dataclass(value)
    if isinstance(value, Mapping):
        inner = get_args(hint)[-1] if get_args(hint) else None
        return {key: _value(item, inner) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_value(item, None) for item in value)
    unit = _unit(hint)
    return quantity(value, unit) if unit and isinstance(value, int | float) else value


def _unit(hint: Any) -> str:
    """The name of the unit that an annotation reads."""
    if get_origin(hint) is Annotated:
        return next((note.name for note in get_args(hint)[1:] if isinstance(note, Unit)), "")
    if get_origin(hint) in (Union, UnionType):
        return next((name for name in map(_unit, get_args(hint)) if name), "")
    return ""


def quantity(value: float, unit: str) -> str:
    """A number with its unit.

    >>> quantity(0.005, "share"), quantity(1800.0, "time"), quantity(1, "steps")
    ('0.5%', '30m', '1 step')
    """
    if unit == "steps":
        return f"{int(value)} step{'' if value == 1 else 's'}"
    if unit == "time":
        return _time(value)
    texts = (f"{100 * value:.{digits}g}%" for digits in range(3, 18))
    return next((text for text in texts if share(text) == value), f"{100 * value!r}%")


def _time(value: float) -> str:
    for name, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0)):
        if value >= size and (value / size).is_integer():
            return f"{int(value / size)}{name}"
    return f"{value!r}s"


def cadence(every: Cadence) -> str:
    """A cadence as it is written."""
    if every.unit == "auto":
        return "auto"
    if every.unit == "seconds":
        return _time(every.value)
    if every.unit == "steps":
        return quantity(every.value, "steps")
    return f"{int(every.value)} tokens" if every.value.is_integer() else f"{every.value!r} tokens"


def response(value: Response) -> Any:
    """One response in its short form.

    >>> response(Response(verb="rollback", depth=2)), response(Response(verb="hold"))
    ({'rollback': {'depth': 2}}, 'hold')
    """
    options: dict[str, Any] = {}
    if value.recover is not None:
        options["recover"] = _dataclass(value.recover)
    if value.depth != 1:
        options["depth"] = value.depth
    if value.factor is not None:
        return {value.verb: quantity(value.factor, "share"), **options}
    if value.shards is not None:
        return {value.verb: value.shards, **options}
    return {value.verb: options} if options else value.verb
