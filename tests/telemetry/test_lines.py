"""The splitter of growing texts, and whole files."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.telemetry import llmc
from orchestrator.telemetry._text import LIMIT, Lines, plain, records


@given(st.lists(st.binary(max_size=9)))
def test_lines_do_not_depend_on_the_pieces(pieces):
    lines = Lines()
    got = [line for piece in pieces for line in lines.feed(piece)] + lines.close()
    assert got == [line for line in b"".join(pieces).splitlines() if line]


def test_a_line_without_end_is_not_held():
    lines = Lines()
    for _ in range(100):
        assert lines.feed(b"x" * 10_000) == []
    assert len(lines._rest) <= LIMIT
    assert lines.feed(b"x\nnext\n") == [b"next"]
    assert lines.dropped == 1


def test_a_long_line_in_one_piece_is_dropped_too():
    lines = Lines()
    assert lines.feed(b"a\n" + b"x" * (LIMIT + 1) + b"\nb\n") == [b"a", b"b"]
    assert lines.dropped == 1
    assert lines.feed(b"y" * LIMIT + b"\n") == [b"y" * LIMIT]


def test_a_file_is_read_to_its_last_line_without_a_newline(tmp_path):
    path = tmp_path / "main.log"
    path.write_bytes(b"s:1 trl:2.5 lr:0.1 norm:0.5\n" + b"x" * (LIMIT + 1) + b"\nnoise\ns:2 trl:2.25 lr:0.1 norm:0.5")
    parser = llmc.parser(4)
    assert [(fact.attempt, fact.step, fact.loss) for fact in records(path, parser)] == [(4, 1, 2.5), (4, 2, 2.25)]
    assert parser.skipped == 2


def test_labels_of_launchers_are_taken_off():
    assert plain(b"[rank3]: text") == ("[rank3]:", "text")
    assert plain(b"5: [default2]:text")[1] == "text"
    assert plain(b"  spaced text") == ("", "  spaced text")
