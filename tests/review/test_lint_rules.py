"""Every rule of lint: a policy that it is about, and one that it leaves alone."""

import sys

import pytest

from orchestrator import detectors, registry
from orchestrator.review.lint.check import findings
from orchestrator.review.lint.pages import pages
from orchestrator.review.lint.rules import RULES
from orchestrator.store.policy_schema import detector_adapter
from orchestrator.store.policy_text import load_text, shipped

PERSISTENT = "spikes: {{persistent: {{respond: {}}}}}"
SAVING = "checkpoints: {{{}}}\nspikes: {{persistent: {{respond: [[rollback, relaunch], [hold]]}}}}"


def codes(text):
    """The codes of the rules that find something in a text."""
    loaded = load_text(f"version: 1\n{text}\n", "p.yaml", shipped())
    assert loaded.policy is not None, loaded.findings
    return {finding.code for finding in findings(loaded)}


BAD = {
    "ORC101": PERSISTENT.format("[[rollback, relaunch]]"),
    "ORC102": PERSISTENT.format("[[hold], [rollback, relaunch]]"),
    "ORC103": PERSISTENT.format("[[rollback], [hold]]"),
    "ORC104": PERSISTENT.format("[[{lr: 50%}, relaunch], [hold]]"),
    "ORC105": "spikes: {isolated: {respond: [[rollback, relaunch], [hold]]}}",
    "ORC106": PERSISTENT.format("[[{quarantine: suspect window}], [hold]]"),
    "ORC107": PERSISTENT.format("[[{rollback: {depth: 2}}, relaunch], [rollback, relaunch], [hold]]"),
    "ORC108": PERSISTENT.format("[[{lr: 100%}], [hold]]"),
    "ORC109": PERSISTENT.format("[[{lr: 10%}], [{lr: 10%}], [hold]]"),
    "ORC110": PERSISTENT.format("[[{clip: 50%}], [hold]]"),
    "ORC120": SAVING.format("keep: {last: 1}"),
    "ORC121": SAVING.format("keep: {last: 2, healthy: 2}, every: 20 steps"),
    "ORC122": SAVING.format("keep: {last: 2, healthy: 2}, every: 100 steps"),
    "ORC123": "checkpoints: {every: 40 steps}",
    "ORC124": "checkpoints: {healthy_after: 40 steps}",
    "ORC125": "checkpoints: {after_incident: {every: 1000 steps, for: 2000 steps}}",
    "ORC130": "limits: {rollbacks: {max: 7}}\n" + PERSISTENT.format("[[rollback, relaunch], [hold]]"),
    "ORC131": "limits: {rollbacks: {max: 0}}\n" + PERSISTENT.format("[[rollback, relaunch], [hold]]"),
    "ORC140": "extends: pretrain\n" + PERSISTENT.format("[[record]]"),
    "ORC141": "mode: act",
    "ORC142": "extends: pretrain\ndetectors: {loss: {threshold: 9}}",
    "ORC143": "extends: pretrain\nlimits: {lr_floor: 1%}",
    "ORC144": "extends: pretrain\ncheckpoints: {margin: 5 steps}",
    "ORC145": "extends: pretrain\nspikes: {nonfinite: {severity: low}}",
    "ORC150": "phases: {a: {until: 1000 steps}, b: {lr: 50%}}",
    "ORC151": "phases: {a: {until: 1000 steps}, b: {until: 500 steps, grace: 10 steps}}",
    "ORC152": "schedule: {peak: 0.1, warmup: {for: 500 steps}, decay: {until: 400 steps}}",
}
GOOD = {
    "ORC101": PERSISTENT.format("[[rollback, relaunch], [hold]]"),
    "ORC104": "spikes: {rank_local: {respond: [[relaunch], [hold]]}}",
    "ORC107": PERSISTENT.format("[[rollback, relaunch], [{rollback: {depth: 2}}, relaunch], [hold]]"),
    "ORC110": "clip: {max_norm: 1.0}\n" + PERSISTENT.format("[[{clip: 50%}], [hold]]"),
    "ORC120": SAVING.format("keep: {last: 2, healthy: 2}"),
    "ORC130": "limits: {rollbacks: {max: 7}}\nspikes: {persistent: {forget: 9 steps, respond: [[rollback, relaunch]]}}",
    "ORC141": "mode: observe",
    "ORC142": "extends: pretrain\ndetectors: {loss: {threshold: 5}}",
    "ORC144": "extends: pretrain\ncheckpoints: {every: 100 steps, margin: 5 steps, healthy_after: 60 steps}",
    "ORC150": "phases: {a: {until: 1000 steps}, b: {lr: 50%, grace: 100 steps}}",
}
WITH_A_JOB = {"ORC201", "ORC202", "ORC203", "ORC204", "ORC205", "ORC206", "ORC207"}  # tests/cli/test_lint.py


@pytest.mark.parametrize("code", BAD)
def test_a_rule_finds_what_it_is_about(code):
    assert code in codes(BAD[code])


@pytest.mark.parametrize("code", GOOD)
def test_a_rule_leaves_alone_what_is_right(code):
    assert code not in codes(GOOD[code])


def test_every_rule_has_a_test_and_a_page():
    tested = set(BAD) | WITH_A_JOB | {"ORC153"}
    assert {rule.code for rule in RULES} == tested
    assert len({rule.code for rule in RULES}) == len(RULES)
    for page in pages():
        assert page.title[0].isupper() or page.title.startswith("extends")
        assert len(page.text) > 20


CAP = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Plugin:
    cap: float = 0.0
    signal: str = "loss"
"""


@pytest.fixture
def capped(tmp_path, monkeypatch):
    """An installation with one detector more, a file in the plug-ins' folder: a threshold that is a loss."""
    (tmp_path / "cap.py").write_text(CAP)
    monkeypatch.setattr(detectors, "__path__", [*detectors.__path__, str(tmp_path)])
    registry.names.cache_clear()
    yield
    sys.modules.pop("orchestrator.detectors.cap", None)
    detector_adapter.cache_clear()
    monkeypatch.undo()
    registry.names.cache_clear()


@pytest.mark.usefixtures("capped")
def test_a_cap_below_the_first_loss_fires_in_every_start_up():
    """A run begins near the logarithm of its vocabulary."""
    text = "version: 1\ndetectors:\n  wall: {kind: cap, cap: %s, signal: %s}\n"

    def found(*values):
        return [str(f) for f in findings(load_text(text % values, "p.yaml", None)) if f.code == "ORC153"]

    assert found(4.2, "loss") == ["p.yaml:3:21 ORC153 a run that begins at a loss of 11 crosses 4.2 in its first steps"]
    assert found(15, "loss") == found(4.2, "grad_norm") == []


def test_rules_still_think_where_other_parts_are_wrong():
    text = "version: 1\nmoed: act\n" + PERSISTENT.format("[[rollback], [hold]]")
    found = findings(load_text(text, "p.yaml", shipped()))
    assert {(2, "ORC010"), (3, "ORC103")} <= {(finding.mark.line, finding.code) for finding in found}
