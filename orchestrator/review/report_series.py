"""Curves of any length in the memory of a picture: the least and the greatest value of every pixel column.

How long a run is, nobody knows before its journal ends: columns begin one step wide and double their
width whenever there are too many of them.
"""

from collections.abc import Iterator
from typing import TypeAlias

COLUMNS = 1600  # at most so many columns across all steps

Point: TypeAlias = tuple[int, float]
Key: TypeAlias = tuple[str, int]  # a curve's name and its attempt


class Column:
    """The first, least, greatest and last point of some steps in a row."""

    __slots__ = ("first", "greatest", "last", "least")

    def __init__(self, point: Point) -> None:
        self.first = self.least = self.greatest = self.last = point

    def add(self, point: Point) -> None:
        """One point more, of a later step."""
        if point[1] < self.least[1]:
            self.least = point
        if point[1] > self.greatest[1]:
            self.greatest = point
        self.last = point

    def join(self, later: "Column") -> None:
        """All points of the column after it."""
        for point in (later.least, later.greatest, later.last):
            self.add(point)

    def points(self) -> list[Point]:
        """Its points in the order of steps, each once."""
        return sorted({self.first, self.least, self.greatest, self.last})


class Curves:
    """Every curve of a run, in columns of one width.

    >>> curves = Curves(columns=2)
    >>> for step, value in enumerate([5.0, 1.0, 9.0, 4.0], 1):
    ...     curves.add("loss", 1, step, value)
    >>> curves.points("loss", 1)
    [(1, 5.0), (2, 1.0), (3, 9.0), (4, 4.0)]
    >>> curves.width
    4
    """

    def __init__(self, columns: int = COLUMNS) -> None:
        self.width = 1
        self._most = columns
        self._columns: dict[Key, dict[int, Column]] = {}

    def add(self, name: str, attempt: int, step: int, value: float) -> None:
        """One point; of the same curve, steps do not fall."""
        while step // self.width >= self._most:
            self._widen()
        columns = self._columns.setdefault((name, attempt), {})
        column = columns.get(step // self.width)
        if column is None:
            columns[step // self.width] = Column((step, value))
        else:
            column.add((step, value))

    def _widen(self) -> None:
        self.width *= 2
        for key, columns in self._columns.items():
            wider: dict[int, Column] = {}
            for index, column in columns.items():
                known = wider.get(index // 2)
                if known is None:
                    wider[index // 2] = column
                else:
                    known.join(column)
            self._columns[key] = wider

    def attempts(self, name: str) -> list[int]:
        """The attempts that have this curve."""
        return sorted(attempt for known, attempt in self._columns if known == name)

    def names(self) -> list[str]:
        """The curves there are."""
        return list(dict.fromkeys(name for name, _ in self._columns))

    def points(self, name: str, attempt: int) -> list[Point]:
        """The points that are left of a curve: all where columns are narrow, else each column's extremes."""
        return [point for column in self._columns.get((name, attempt), {}).values() for point in column.points()]

    def values(self, name: str) -> Iterator[float]:
        """The values that are left of a curve, over all attempts."""
        return (value for known, a in self._columns if known == name for _, value in self.points(name, a))

    def at(self, name: str, attempt: int, step: int) -> float | None:
        """The value that is left nearest to a step."""
        points = self.points(name, attempt)
        return min(points, key=lambda point: abs(point[0] - step))[1] if points else None
