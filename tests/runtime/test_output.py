"""Output without an end: what is on the disk stays within bounds, and no record that is read from it is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.runtime import output
from tests.runtime.scripted import Run

STEPS = 160
# A trainer that prints a record and a megabyte of something else, at every step.
FLOOD = f"""
import json, time
for step in range(1, {STEPS} + 1):
    print(json.dumps({{"step": step, "loss": 2.0 + step % 7 / 100}}), flush=True)
    print(("j" * 127 + "\\n") * 8192, end="", flush=True)
    time.sleep(0.02)
"""


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(output, "HEAD", 1000)
    monkeypatch.setattr(output, "TAIL", 10_000)
    monkeypatch.setattr(output, "LIMIT", 50_000)


def test_the_middle_is_left_out_between_whole_lines(tmp_path, small):
    path = tmp_path / "output.log"
    lines = [b"line %06d\n" % number for number in range(5000)]
    path.write_bytes(b"".join(lines))
    output.shorten(path)
    head, _, tail = path.read_bytes().partition(b"\n[... 49000 bytes are left out here ...]\n")
    assert b"".join(lines).startswith(head)
    assert len(head) == output.HEAD
    assert tail == b"".join(lines[-len(tail) // 12 :])
    assert output.TAIL - 12 <= len(tail) <= output.TAIL


def test_what_is_written_after_the_cut_follows_it(tmp_path, small):
    path = tmp_path / "output.log"
    code = "import sys; sys.stdout.write('x' * 60_000); sys.stdout.flush(); input(); print('later')"
    with open(path, "ab") as file:
        job = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=file)
    while path.stat().st_size < 60_000:
        pass
    output.shorten(path)
    size = path.stat().st_size
    job.communicate(b"\n")
    assert path.stat().st_size == size + len("later\n")
    assert path.read_bytes().endswith(b"later\n")


def test_what_is_within_bounds_or_not_there_is_left_alone(tmp_path, small):
    path = tmp_path / "output.log"
    output.shorten(path)
    path.write_bytes(b"x" * output.LIMIT)
    output.shorten(path)
    assert path.stat().st_size == output.LIMIT


def test_what_is_forgotten_gives_back_its_room_and_moves_nothing(tmp_path):
    path = tmp_path / "output.log"
    path.write_bytes(b"x" * (4 << 20))
    if not output.forget(path, 1 << 20, 3 << 20):
        pytest.skip("this file system cannot give back a part of a file")
    assert (path.stat().st_size, on_disk(path)) == (4 << 20, 2 << 20)
    assert path.read_bytes() == b"x" * (1 << 20) + bytes(2 << 20) + b"x" * (1 << 20)
    assert not output.forget(tmp_path / "nothing", 0, 1)


def test_records_in_a_flood_are_all_read_also_across_two_supervisors(run: Run):
    child = run.lay_out(command=["python", "-c", FLOOD], kind="jsonl", total=STEPS).start()
    run.wait_for(lambda: len(run.steps(1)) > STEPS // 3)
    child.kill()
    child.communicate()
    state = run.supervise()
    assert (state.status, state.attempt) == ("completed", 1)
    assert run.steps(1) == list(range(1, STEPS + 1))
    path = run.dir.attempt(1).output
    assert path.stat().st_size > STEPS << 20
    assert on_disk(path) < 40 << 20
