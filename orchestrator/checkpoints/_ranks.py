"""Files numbered by rank: which one is missing."""

import re
from collections.abc import Iterable
from itertools import product


def missing_rank(names: Iterable[str], pattern: re.Pattern[str]) -> str:
    """The first absent file of a grid of ranks; the pattern's groups are the coordinates, each from 0 to its highest.

    The highest rank itself cannot be missed: only a count written elsewhere tells of it.

    >>> missing_rank(["rng_0.pt", "rng_2.pt"], re.compile(r"rng_([0-9]+)[.]pt"))
    'rng_1.pt is missing'
    """
    seen: dict[tuple[int, ...], re.Match[str]] = {}
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            seen[tuple(int(each) for each in match.groups())] = match
    if not seen:
        return ""
    sizes = [range(max(axis) + 1) for axis in zip(*seen, strict=True)]
    absent = next((at for at in product(*sizes) if at not in seen), None)
    return f"{_named(next(iter(seen.values())), absent)} is missing" if absent else ""


def _named(like: re.Match[str], at: tuple[int, ...]) -> str:
    """A neighbour's name with other coordinates, each as wide as the neighbour's."""
    parts, end = [], 0
    for group, number in enumerate(at, 1):
        start, stop = like.span(group)
        parts += [like.string[end:start], str(number).zfill(stop - start)]
        end = stop
    return "".join(parts) + like.string[end:]


def numbered(names: Iterable[str], pattern: re.Pattern[str]) -> int:
    """How many names match."""
    return sum(pattern.fullmatch(name) is not None for name in names)


def missing_of(names: Iterable[str], pattern: re.Pattern[str]) -> str:
    """The first absent file of sets that say their own size; groups are `index` and `of`, the rest names the set.

    >>> names = ["m-00001-of-00003.bin", "m-00003-of-00003.bin"]
    >>> missing_of(names, re.compile(r".*-(?P<index>[0-9]+)-of-(?P<of>[0-9]+)[.]bin"))
    'file 2 of 3 of m-*-of-00003.bin is missing'
    """
    have: dict[tuple[str, int], set[int]] = {}
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            start, stop = match.span("index")
            have.setdefault((f"{name[:start]}*{name[stop:]}", int(match["of"])), set()).add(int(match["index"]))
    for (family, size), seen in sorted(have.items()):
        first = 0 if 0 in seen else 1
        absent = next((index for index in range(first, first + size) if index not in seen), None)
        if absent is not None:
            return f"file {absent} of {size} of {family} is missing"
    return ""
