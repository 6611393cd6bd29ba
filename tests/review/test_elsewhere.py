"""Recordings at URLs: read as if they lay here, and nothing of them is left here."""

import gc
import tempfile

import fsspec
import pytest

from orchestrator.errors import ConfigError
from orchestrator.review.diff.decisions import on
from orchestrator.review.recording import Recording
from orchestrator.review.replay import replay
from orchestrator.store.policy_text import checked, read
from tests.cli.calling import call
from tests.review.recordings import messages, raised, run_of, wire


@pytest.fixture
def memory():
    fs = fsspec.filesystem("memory")
    yield fs
    fs.rm("/", recursive=True)


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Where copies are made; empty again when nobody holds a recording."""
    place = tmp_path / "copies"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    gc.collect()
    assert list(place.iterdir()) == []


def incidents(answer):
    return answer["recordings"][0]["incidents"]


def test_a_file_of_another_file_system_is_read_as_one_of_this_host(memory, tmp_path, folders):
    here = wire(tmp_path / "night.jsonl", messages(raised, 3400))
    memory.put_file(str(here), "/kept/night.jsonl")
    answer = replay(read("pretrain"), ["memory://kept/night.jsonl"])
    assert answer["recordings"][0]["recording"] == "memory://kept/night.jsonl"
    assert incidents(answer) == incidents(replay(read("pretrain"), [str(here)])) != []


def test_of_a_run_directory_the_journal_is_enough(memory, tmp_path, folders):
    loaded, _ = run_of(tmp_path / "run", lambda attempt, step: "crash" if (attempt, step) == (1, 300) else None)
    (tmp_path / "run" / "checkpoints").mkdir()
    (tmp_path / "run" / "checkpoints" / "large.bin").write_bytes(b"0" * 1000)
    memory.put(str(tmp_path / "run"), "/runs/", recursive=True)
    recording = Recording("memory://runs/run")
    assert recording.format == "journal"
    assert [path.name for path in folders.rglob("*") if path.is_file()] == ["journal.jsonl"]
    told = replay(checked(loaded), ["memory://runs/run"])["recordings"][0]
    assert told["agrees"] is True


def test_a_url_of_this_host_is_not_copied(tmp_path, folders):
    here = wire(tmp_path / "night.jsonl", messages(steps=50))
    recording = Recording(f"file://{here}")
    assert sum(len(batch) for batch in recording.batches()) == 50
    assert [path for path in folders.rglob("*") if path.is_file()] == []


def test_two_policies_on_one_that_lies_elsewhere(memory, tmp_path):
    memory.put_file(str(wire(tmp_path / "night.jsonl", messages(raised, 3400))), "/night.jsonl")
    (compared,) = on(read("pretrain"), read("base"), ["memory://night.jsonl"])
    assert compared.recording == "memory://night.jsonl"
    assert [difference.what for difference in compared.differences] == [("actions",)]


@pytest.mark.parametrize(
    ("url", "words"),
    [("memory://gone.jsonl", "memory://gone.jsonl: cannot be fetched: there is nothing of that name"),
     ("nowhere://a/b.jsonl", "nowhere://a/b.jsonl: cannot be fetched: Protocol not known: nowhere"),
     ("file:///gone/b.jsonl", "file:///gone/b.jsonl: there is no such recording")],
)  # fmt: skip
def test_what_cannot_be_fetched_is_said_by_its_url(url, words):
    said = call("replay", "pretrain", url)
    assert (said.code, said.out) == (2, words)


def test_a_folder_elsewhere_that_is_no_recording(memory):
    memory.pipe_file("/notes/readme.txt", b"hello")
    with pytest.raises(ConfigError, match=r"^memory://notes: neither a run directory"):
        Recording("memory://notes")


def test_a_key_never_leads_out_of_the_copy(memory, folders):
    memory.pipe_file("/bad/../../journal.jsonl", b"{}\n")
    memory.pipe_file("/bad/x/../../tfevents.1", b"")
    with pytest.raises(ConfigError):
        Recording("memory://bad")
    assert [path for path in folders.parent.rglob("*") if path.is_file()] == []


def test_a_bucket_of_an_object_store(tmp_path, monkeypatch):
    pytest.importorskip("s3fs", reason="s3fs is not installed (extra: s3)")
    pytest.importorskip("moto.server", reason="moto is not installed (extra: test)")
    from tests.e2e.bucket import served

    with served() as (bucket, address):
        for name, value in (("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s"), ("ENDPOINT_URL", address)):
            monkeypatch.setenv(f"AWS_{name}", value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()  # one with another server of another test
        s3 = fsspec.filesystem("s3", skip_instance_cache=True)
        s3.mkdir("kept")
        s3.put_file(str(wire(tmp_path / "night.jsonl", messages(raised, 3400))), "kept/night.jsonl")
        bucket.share = 0.2
        assert len(incidents(replay(read("pretrain"), ["s3://kept/night.jsonl"]))) == 1
        bucket.share = 0.0
        said = call("replay", "pretrain", "s3://kept/gone.jsonl")
        assert (said.code, said.out) == (2, "s3://kept/gone.jsonl: cannot be fetched: there is nothing of that name")
