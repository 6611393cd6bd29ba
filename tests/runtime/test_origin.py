"""What the only odd rank wrote about its own step becomes part of the fact."""

import pytest

from orchestrator import wire
from orchestrator.core.facts import Batch, Ranks, Step
from orchestrator.runtime.origin import traced

BATCH = Batch(("doc-3-a",), max_len=700.0)
ODD = Step(1, 140, nonfinite=("loss", "grad_norm"), ranks=Ranks(4, (2.3, 2.2, 2.4, None), nonfinite=(3,)))


def write(folder, *steps, before=""):
    lines = [
        {
            "type": "step", "step": step, "loss": "nan", "nonfinite": 2, "nonfinite_module": f"blocks.{step}",
            "nonfinite_names": [f"blocks.{step}.weight"], "batch": {"ids": ["doc-3-a"], "max_len": 700},
        }
        for step in steps
    ]  # fmt: skip
    text = before + "".join(wire.encode(line) + "\n" for line in lines)
    (folder / "telemetry.rank3.jsonl").write_text(text)


@pytest.mark.parametrize("before", ["", '{"type":"shard","hash":7,"name":"x"}\n' * 3000, '{"torn'])
def test_the_rank_s_module_parameters_and_batch_are_taken(tmp_path, before):
    write(tmp_path, 12, 140, 141, before=before)
    assert traced(tmp_path, ODD) == ODD._replace(
        module="blocks.140 on rank 3", parameters=("blocks.140.weight",), batch=BATCH
    )


def test_what_it_has_not_written_yet_is_not_waited_for(tmp_path):
    assert traced(tmp_path, ODD) == ODD
    write(tmp_path, 14, 1400)
    assert traced(tmp_path, ODD) == ODD


@pytest.mark.parametrize("ranks", [None, Ranks(4, nonfinite=(1, 3)), Ranks(4, nonfinite=(0,)), Ranks(4, (2.0,) * 4)])
def test_where_no_single_rank_is_odd_nothing_is_asked(tmp_path, ranks):
    write(tmp_path, 140)
    assert traced(tmp_path, ODD._replace(ranks=ranks)) == ODD._replace(ranks=ranks)
