"""orchestrate report: the file's ending says what is written; what cannot be done is said."""

import pytest
from click.testing import CliRunner

from orchestrator.cli.report import command
from orchestrator.errors import ConfigError, RunDirError
from orchestrator.store.journal import Journal, Record
from tests.review.report_runs import run, text


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "example<b>"
    folder.mkdir()
    with Journal(folder / "journal.jsonl", {"policy": text(), "digest": "d1"}) as log:
        for fact in run().facts[:120]:
            log.append(Record(fact))
    return folder


def asked(*arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize(("name", "begin"), [("report.html", "<!doctype html>"), ("run.svg", "<svg ")])
def test_the_ending_says_what_is_written(run_dir, tmp_path, name, begin):
    out = tmp_path / name
    out.write_text("old")
    assert asked(run_dir, "-o", out).exit_code == 0
    assert out.read_text().startswith(begin)
    assert "example&lt;b&gt;" in out.read_text()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_cannot_be_done_is_said(run_dir, tmp_path):
    with pytest.raises(ConfigError, match=r"report\.pdf: .*\.html or \.svg"):
        asked(run_dir, "-o", tmp_path / "report.pdf")
    with pytest.raises(RunDirError, match="there is no run here"):
        asked(tmp_path, "-o", tmp_path / "report.html")
    with pytest.raises(ConfigError, match="cannot be written"):
        asked(run_dir, "-o", tmp_path / "nowhere" / "report.html")
    assert list(tmp_path.iterdir()) == []
