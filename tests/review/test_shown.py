"""Show: what is in force, where each value came from, and text that can be loaded again."""

import pytest

from orchestrator.review.shown import as_json, text
from orchestrator.store.policy_text import load, load_text, locate, named


@pytest.mark.parametrize("name", named())
def test_what_is_shown_is_the_policy_itself(name):
    loaded = load(locate(name))
    assert load_text(text(loaded), "shown.yaml", None).policy == loaded.policy


def test_every_value_says_where_it_came_from():
    loaded = load(locate("tiny_gpt"), ("limits.rollbacks.max=2",))
    lines = text(loaded).splitlines()

    def origin(begin):
        return next(line.partition("  # ")[2] for line in lines if line.lstrip().startswith(begin))

    assert origin("healthy_after:").startswith("tiny_gpt.yaml:")
    assert origin("max_norm:").startswith("pretrain.yaml:")
    assert origin("eval_worse:").startswith("base.yaml:")
    assert origin("keep:") == "default"
    assert origin("rollbacks:").startswith("override 'limits.rollbacks.max=2'")


def test_json_has_values_and_places():
    told = as_json(load(locate("pretrain")))
    assert told["policy"]["checkpoints"]["keep"] is None
    assert told["origin"]["limits.lr_floor"].partition("base.yaml:")[2]
    assert len(told["digest"]) == 16
