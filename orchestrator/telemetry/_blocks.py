"""Records of several lines: a head, then one value a line, each rank's by itself."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from orchestrator.telemetry._line import LineParser, Row
from orchestrator.telemetry._text import Unclear

Head = TypeVar("Head")


class BlockParser(LineParser, Generic[Head]):
    """A record is whole when another line than one of its values comes, or the text ends."""

    def __init__(self, attempt: int) -> None:
        super().__init__(attempt)
        self._open: dict[str, tuple[Head, dict[str, str]]] = {}

    @abstractmethod
    def head(self, text: str) -> Head | None:
        """The head of a record, when the line is one."""

    @abstractmethod
    def item(self, text: str) -> tuple[str, str] | None:
        """A name and its value as printed, when the line is one of a record."""

    @abstractmethod
    def record(self, head: Head, said: Mapping[str, str]) -> Sequence[Row]:
        """The rows of a whole record; ValueError when it is unclear."""

    def rows(self, text: str) -> Sequence[Row] | None:
        head = self.head(text)
        if head is not None:
            rows = self._end()
            self._open[self.rank] = (head, {})
            return rows
        item = self.item(text)
        if item is None or self.rank not in self._open:
            self.skipped += 1
            return self._end()
        said = self._open[self.rank][1]
        if item[0] in said:
            del self._open[self.rank]
            raise Unclear("a value twice in one record")
        said[item[0]] = item[1]
        return ()

    def rest(self) -> Sequence[Row]:
        rows: list[Row] = []
        for rank in list(self._open):
            self.rank = rank
            rows += self._end()
        return rows

    def _end(self) -> Sequence[Row]:
        head, said = self._open.pop(self.rank, (None, {}))
        if head is None or not said:
            return ()
        try:
            return self.record(head, said)
        except (ValueError, OverflowError):
            self.skipped += 1
            return ()
