"""What the runs named under `history` met comes back in the words of a run that meets it again."""

import pytest
from rich.console import Console

from orchestrator import registry
from orchestrator.cli.telling import Telling
from orchestrator.config import RunDir
from orchestrator.core.verdict import Past
from orchestrator.errors import ConfigError, RunDirError
from orchestrator.review.past import past
from tests.review.recordings import run_of
from tests.simulation import policy, simulate


def spike(attempt, step):
    return {"loss": 9.0} if step == 403 else None


def test_the_spikes_of_a_run_are_read_from_its_journal(tmp_path):
    run_of(tmp_path / "first", spike)
    assert past(["first"], tmp_path) == (Past("first", "isolated", 403, ("shard-40",)),)
    assert past(None, tmp_path) == ()


def test_what_is_no_run_or_no_list_is_refused(tmp_path):
    with pytest.raises(RunDirError, match="no run here"):
        past(["nowhere"], tmp_path)
    with pytest.raises(ConfigError, match="list of run directories"):
        past("first", tmp_path)


def test_a_run_that_meets_it_again_is_told_so(tmp_path, capsys):
    run_of(tmp_path / "first", spike)
    job = simulate(policy("pretrain"), spike)
    telling = Telling(registry.bind(policy("pretrain")), RunDir(tmp_path), past(["first"], tmp_path))
    telling._console = Console(highlight=False, soft_wrap=True, width=1000)
    telling.hear(job.state, job.decisions[-1])
    assert "Not the first time: first read shard-40 in an incident (isolated) at step 403." in capsys.readouterr().out
