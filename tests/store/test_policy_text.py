"""Policy texts: YAML 1.2 as people write it, errors at their place, layers, and writing back."""

import pytest

from orchestrator.core.policy import Policy
from orchestrator.core.units import share
from orchestrator.errors import PolicyError
from orchestrator.store.policy_text import below, load, load_text, locate, named, read, shipped
from orchestrator.store.policy_unparse import quantity, unparsed
from orchestrator.store.policy_write import flow, yaml_dump


def loaded(text, *overrides, folder=None):
    return load_text(text, "p.yaml", folder, overrides)


def policy(text, *overrides):
    found = loaded(text, *overrides)
    assert found.policy is not None, found.findings
    return found.policy


def said(text, *overrides, folder=None):
    """Every finding as `line:column CODE message`."""
    return [str(f).removeprefix("p.yaml:") for f in loaded(text, *overrides, folder=folder).findings]


# --- words and numbers of YAML 1.2 -------------------------------------------------------------------


def test_1e_4_is_a_number():
    assert policy("schedule: {peak: 1e-4}").schedule.peak == 1e-4
    assert policy("schedule: {peak: 5E-1}").schedule.peak == 0.5


def test_a_share_without_its_sign_is_an_error_with_the_right_spelling():
    assert said("limits:\n  lr_floor: 5e-1") == [
        "2:13 ORC013 limits.lr_floor: write a share with its sign, such as '70%'; got 0.5"
    ]


@pytest.mark.parametrize("word", ["off", "on", "no", "yes"])
def test_on_and_no_are_words(word):
    (finding,) = said(f"mode: {word}")
    assert finding == f"1:7 ORC013 mode: '{word}' is none of observe, propose, act" + (
        "; did you mean 'propose'?" if word == "never" else ""
    )


def test_on_stays_on_as_a_key():
    assert said("on: {nonfinite: rollback}")[0].startswith("1:1 ORC010 unknown key 'on'")


def test_true_is_no_number_and_a_text_is_no_true():
    assert said("clip: {max_norm: true}")[0].startswith("1:18 ORC013 clip.max_norm")
    assert policy("checkpoints: {before_phase_switch: false}").checkpoints.before_phase_switch is False
    for written, told in (("no", "'no'"), ("0", "0"), ("maybe", "'maybe'")):
        assert said(f"checkpoints: {{before_phase_switch: {written}}}") == [
            f"1:36 ORC013 checkpoints.before_phase_switch: write true or false; got {told}"
        ]
    assert said("version: true")[0].startswith("1:10 ORC013 version")


@pytest.mark.parametrize("written", ["true", "nan", "inf", ".inf", "high"])
def test_a_detectors_number_is_a_number(written):
    (finding,) = said(f"detectors:\n  loss: {{kind: robust_z, threshold: {written}}}")
    assert finding.startswith("2:37 ORC013 detectors.loss.threshold: expected a number, got ")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("mode: act\n\tclip: {}", "2:1 ORC001"),
        ("mode: [act", "1:11 ORC001"),
        ("mode: act\nmode: observe", "2:1 ORC002 duplicate key 'mode', first at line 1"),
        ("clip: &a {max_norm: 1.0}\n", "1:7 ORC003"),
        ("clip: !!python/object:os.system {}", "1:7 ORC003"),
        ("- a\n- b", "1:1 ORC004"),
    ],
)
def test_what_is_no_policy_text_is_said_at_its_place(text, place):
    assert any(finding.startswith(place) for finding in said(text)), said(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clip: {max_norm: -1}", "clip.max_norm: -1 is out of range: at least 0"),
        ("spikes: {repeated: {events: 0}}", "spikes.repeated.events: 0 is out of range: at least 1"),
        ("spikes: {repeated: {events: 2.5}}", "spikes.repeated.events: expected a whole number, got 2.5"),
        ("clip: [1.0]", "clip: expected a mapping, got [1.0]"),
        ("failures: {crash: {respond: hold}}", "failures.crash.respond: expected a list, got 'hold'"),
        ("mode: {act: now}", "mode: {act: now} is none of observe, propose, act"),
    ],
)
def test_a_wrong_value_is_said_as_it_was_written(text, words):
    (finding,) = said(text)
    assert finding.partition(" ORC013 ")[2] == words


def test_every_error_is_shown():
    text = "mode: acct\npropse: 1\nclip: 3\ncheckpoints: {every: 5, margin: x}\n"
    assert [finding.split()[0] for finding in said(text)] == ["1:7", "2:1", "3:7", "4:22", "4:33"]


def test_a_quantity_that_is_too_large_is_an_error():
    assert "ORC013" in said(f"checkpoints: {{margin: {'9' * 400} steps}}")[0]


def test_the_right_part_is_kept_beside_the_wrong_one():
    found = loaded("mode: observe\nclip: {max_nrom: 2.0}\nlimits: {rollbacks: {max: 9}}")
    assert found.policy is None
    assert found.sound.mode == "observe"
    assert found.sound.limits.rollbacks.max == 9


# --- layers ------------------------------------------------------------------------------------------


def test_mappings_merge_and_lists_replace(tmp_path):
    (tmp_path / "team.yaml").write_text("limits: {rollbacks: {max: 7}}\nspikes: {nonfinite: {respond: [[hold]]}}\n")
    text = "extends: team\nlimits: {rollbacks: {per: 10 steps}}\nspikes: {nonfinite: {respond: [[record]]}}\n"
    found = load_text(text, str(tmp_path / "mine.yaml"), tmp_path)
    assert (found.policy.limits.rollbacks.max, found.policy.limits.rollbacks.per) == (7, 10)
    assert [[r.verb for r in rung] for rung in found.policy.spikes.nonfinite.respond] == [["record"]]
    assert found.origin["limits", "rollbacks", "max"].key.file.endswith("team.yaml")
    assert below(found).policy.limits.rollbacks.max == 7


def test_extends_leaves_its_folder_never_and_ends(tmp_path):
    for name in ("../other", "/etc/passwd", "a/b", "[x]"):
        assert "ORC006" in said(f"extends: {name}", folder=tmp_path)[0]
    (tmp_path / "a.yaml").write_text("extends: b\n")
    (tmp_path / "b.yaml").write_text("extends: a\n")
    assert "goes in a circle" in str(load(tmp_path / "a.yaml").findings[0])
    assert "did you mean 'base'?" in said("extends: bsae", folder=shipped())[0]


def test_an_override_is_one_more_layer_and_errors_point_at_it():
    assert policy("mode: act", "limits.rollbacks.max=9").limits.rollbacks.max == 9
    assert str(loaded("mode: act", "limits.rollbacks.max=many").findings[0]).startswith(
        "override 'limits.rollbacks.max=many':1:22 ORC013"
    )
    assert "unknown key 'rolbacks'; did you mean 'rollbacks'?" in str(
        loaded("mode: act", "limits.rolbacks.max=1").findings[0]
    )
    assert "ORC007" in str(loaded("mode: act", "no_equals").findings[0])


def test_commas_equals_and_quotes_in_an_override_are_its_value():
    ladder = policy("mode: act", "spikes.repeated.respond=[[{lr: 70%}, {clip: 50%}], [hold]]").spikes.repeated.respond
    assert [[r.verb for r in rung] for rung in ladder] == [["lr", "clip"], ["hold"]]
    found = loaded("mode: act", "mode=a=b,'c")
    assert '"a=b,\'c" is none of' in str(found.findings[0])


def test_a_name_is_a_path_or_shipped():
    assert set(named()) >= {"base", "pretrain", "continued", "finetune", "observe", "tiny_gpt"}
    assert read("pretrain").mode == "act"
    with pytest.raises(PolicyError, match="did you mean 'pretrain'"):
        locate("pretrian")


# --- writing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", named())
def test_what_is_written_reads_back_as_the_same_policy(name):
    found = load(locate(name))
    assert load_text(yaml_dump(found.raw), "again.yaml", None).policy == found.policy
    assert load_text(yaml_dump(unparsed(found.policy)), "again.yaml", None).policy == found.policy


def test_the_same_policy_written_otherwise_is_the_same():
    one = "clip: {max_norm: 1}\nspikes: {persistent: {confirm: {for: 2K steps}}}\npropose: {wait: 1h}\n"
    other = "propose:\n  wait: 60m\nspikes:\n  persistent:\n    confirm: {for: 2000 steps}\nclip:\n  max_norm: 1.0\n"
    assert unparsed(policy(one)) == unparsed(policy(other))
    assert unparsed(policy(one)) != unparsed(Policy())


@pytest.mark.parametrize("value", ["0.5%", "70%", "33.3333333333333333%", "100%", "0%", "1e-5%", "1250%", "0.07%"])
def test_shares_are_written_exactly(value):
    assert share(quantity(share(value), "share")) == share(value)


@pytest.mark.parametrize("word", ["no", "null", "1e-4", "a: b", "it's", "", " x", "12", "a\nb", "ü\u2028", "#", "[x]"])
def test_words_are_quoted_where_they_must_be(word):
    found = loaded(f"phases: {{{flow(word)}: {{until: 5 steps}}}}")
    assert list(found.policy.phases) == [word]
