"""Why an attempt ended, by its words first and its codes last."""

import json

import pytest

from orchestrator.runtime.causes import cause_of

CODE1 = {"code": 1, "signal": None}


def judged(tmp_path, output="", record=CODE1, error=None, stepped=True):
    (tmp_path / "output.log").write_text(output)
    if error is not None:
        (tmp_path / "error.json").write_text(json.dumps(error))
    return cause_of(record, tmp_path / "output.log", tmp_path / "error.json", stepped)


@pytest.mark.parametrize(
    ("output", "stepped", "cause", "why"),
    [
        ("ValueError: bad shape\n", True, "crash", "ValueError: bad shape (exit code 1)"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to\n", True, "oom", "torch.OutOfMemoryError: CUDA out of"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0\n", True, "oom", "oom_kill"),
        ("OSError: [Errno 28] No space left on device\n", True, "disk_full", "OSError: [Errno 28] No space left"),
        ("ModuleNotFoundError: No module named 'flash'\n", False, "command", "ModuleNotFoundError: No module named"),
        ("ModuleNotFoundError: No module named 'flash'\n", True, "crash", "ModuleNotFoundError"),
        (
            "python: can't open file 'tarin.py': [Errno 2] No such file\n",
            False,
            "command",
            "can't open file 'tarin.py'",
        ),
        ("OSError: [Errno 98] Address already in use\n", False, "environment", "OSError: [Errno 98]"),
        ("warning: Address already in use, trying 6007\nValueError: no\n", True, "crash", "ValueError: no"),
        ("slurmstepd: error: *** STEP 3.0 ON n1 CANCELLED DUE TO NODE FAILURE ***\n", True, "host", "NODE FAILURE"),
        ("slurmstepd: error: *** JOB 4 ON n1 CANCELLED DUE TO PREEMPTION ***\n", True, "preemption", "PREEMPTION"),
        ("Exception: Current loss scale already at minimum - cannot go on.\n", True, "numeric", "already at minimum"),
        ("FloatingPointError: Minimum loss scale reached (0.0001).\n", True, "numeric", "Minimum loss scale reached"),
        ("RuntimeError: x (message='found NaN in local grad norm')\n", True, "numeric", "local grad norm"),
        ("RuntimeError: Function 'ExpBackward0' returned nan values in its 0th output.\n", True, "numeric", "Exp"),
        ("step 9\nLoss is nan, stopping training\n", True, "numeric", "Loss is nan"),
        ("ValueError: The loss returned in `training_step` is nan.\n", True, "numeric", "training_step"),
        ("the loss is nan-safe\nValueError: no\n", True, "crash", "ValueError: no"),
        ("", True, "crash", "exit code 1"),
    ],
)
def test_the_last_words_tell_the_cause(tmp_path, output, stepped, cause, why):
    found, words = judged(tmp_path, output, stepped=stepped)
    assert found == cause
    assert why in words


def test_the_first_failing_rank_speaks_for_the_others(tmp_path):
    output = (
        "[rank1]: ValueError: corrupt record 77\n"
        "[rank0]: torch.distributed.DistBackendError: NCCL error, peer is gone\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    )
    assert judged(tmp_path, output)[1] == "ValueError: corrupt record 77 (exit code 1)"


def test_the_launchers_error_file_is_believed_before_the_output(tmp_path):
    error = {"message": {"message": "RuntimeError: shapes differ", "extraInfo": {}}}
    assert judged(tmp_path, "KeyError: 3\n", error=error)[1] == "RuntimeError: shapes differ (exit code 1)"


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"message": {}}', '{"message": null}'])
def test_an_error_file_that_is_broken_is_passed_over(tmp_path, broken):
    (tmp_path / "error.json").write_text(broken)
    assert judged(tmp_path, "KeyError: 3\n") == ("crash", "KeyError: 3 (exit code 1)")


def test_only_the_end_of_a_huge_output_is_read(tmp_path):
    cause, why = judged(tmp_path, "CUDA out of memory\n" + "x" * (200 << 10) + "\nValueError: late\n")
    assert (cause, why) == ("crash", "ValueError: late (exit code 1)")


def test_signals_and_missing_records_are_said(tmp_path):
    assert judged(tmp_path, record={"code": None, "signal": 9})[1] == "killed by SIGKILL"
    assert judged(tmp_path, record={"code": None, "signal": 99})[1] == "killed by signal 99"
    assert "left no exit record" in judged(tmp_path, record={"code": None, "signal": None})[1]


def test_a_lost_host_is_no_crash(tmp_path):
    lost = {"code": None, "signal": None, "lost": True, "why": "host n2 of the job is gone"}
    assert judged(tmp_path, "ValueError: old\n", record=lost) == ("host", "host n2 of the job is gone")
