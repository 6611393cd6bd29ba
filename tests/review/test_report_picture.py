"""The picture: the right marks at the right steps, for a saved, a held, a running and an empty run."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest

from orchestrator.core.facts import Eval, Launched, Supervised
from orchestrator.review.report_axes import ALARM, MILD, Scale, colour_of
from orchestrator.review.report_chart import LEFT, RIGHT, chart
from orchestrator.review.report_marks import labels
from orchestrator.review.report_strip import phases
from tests.review.report_runs import HOSTILE, LEVEL, SPIKE, hopeless, run, told
from tests.simulation import Job

NS = "{http://www.w3.org/2000/svg}"


def drawn(story):
    return ET.fromstring(chart(story))


def having(root, kind):
    return [e for e in root.iter() if kind in (e.get("class") or "").split()]


def path_x(element):
    return [float(pair.split()[0]) for pair in re.findall(r"[\d.]+ [\d.]+", element.get("d"))]


def texts(root):
    return ["".join(e.itertext()) for e in root.iter(f"{NS}text")]


@pytest.fixture(scope="module")
def story():
    return told(run())


@pytest.fixture(scope="module")
def root(story):
    return drawn(story)


@pytest.fixture(scope="module")
def x(story):
    return Scale(0, story.state.frontier, LEFT, RIGHT)


def test_each_attempt_has_its_colour_and_what_was_left_is_faded_from_the_target_on(story, root, x):
    action = next(o.action for o in story.actions() if o.action.verb == "rollback")
    loss = having(root, "loss")[0]
    (faded,) = having(loss, "abandoned")
    first, second = having(loss, "kept")
    assert [e.get("stroke") for e in (faded, first, second)] == [colour_of(1), colour_of(1), colour_of(2)]
    assert float(faded.get("stroke-opacity")) < 1
    assert first.get("stroke-opacity") is None
    assert (path_x(faded)[0], path_x(faded)[-1]) == pytest.approx((x(action.to_step), x(action.step)), abs=0.1)
    assert path_x(first)[-1] == pytest.approx(x(action.to_step), abs=0.1)
    assert path_x(second)[0] == pytest.approx(x(action.to_step + 1), abs=0.1)
    assert path_x(second)[-1] == pytest.approx(RIGHT, abs=0.1)


def test_incidents_are_bands_from_onset_to_end_with_class_number_and_answer(story, root, x):
    spike, level = story.incidents()
    assert (spike.onset, level.onset) == (SPIKE, LEVEL)
    bands = having(having(root, "loss")[0], "incident")
    assert [(e.get("fill"), e.get("class").split()[1]) for e in bands] == [(MILD, "incident-1"), (ALARM, "incident-2")]
    assert [float(e.get("x")) + 0.5 for e in bands] == pytest.approx([x(SPIKE), x(LEVEL)], abs=0.2)
    decided = next(o.action.step for o in story.actions() if o.action.verb == "rollback")
    assert float(bands[1].get("width")) == pytest.approx(x(decided) - x(LEVEL), abs=1.0)
    said = texts(root)
    assert {"1", "isolated: recorded", "2", "persistent: rolled back"} <= set(said)


def test_the_rollback_is_an_arrow_from_the_decision_to_its_target(story, root, x):
    (arrow,) = having(root, "rollback")
    action = next(o.action for o in story.actions() if o.action.verb == "rollback")
    arc, ring = next(arrow.iter(f"{NS}path")), next(arrow.iter(f"{NS}circle"))
    assert path_x(arc)[0] == pytest.approx(x(action.step), abs=0.1)
    assert path_x(arc)[-1] == float(ring.get("cx")) == pytest.approx(x(action.to_step), abs=0.1)
    assert arc.get("stroke-dasharray") is None
    assert f"rolled back to step {action.to_step:,}" in texts(arrow)
    assert "attempt 2: old level holds" in texts(arrow)


def test_the_cut_of_the_rate_stands_where_it_begins(story, root, x):
    (cut,) = having(root, "cut")
    action = next(o.action for o in story.actions() if o.action.verb == "lr")
    assert float(next(cut.iter(f"{NS}line")).get("x1")) == pytest.approx(x(action.cuts[-1].step), abs=0.1)
    assert texts(cut) == ["× 0.5"]


def test_checkpoints_tell_their_health_by_class_and_the_legend_names_those_there_are(story, root):
    present = {verdict.health for *_, verdict in story.checkpoints()}
    marked = {e.get("class").split()[1] for e in having(root, "checkpoint")}
    assert marked == present >= {"healthy", "provisional"}
    assert present <= set(texts(root))


def test_phases_are_those_of_the_present_branch(story):
    assert [(s.begin, s.end, s.name) for s in phases(story)] == [(0, 500, "web"), (500, 1200, "code")]


def test_evaluations_are_marks_in_the_loss_panel(x):
    job = run()
    facts = [*job.facts[:50], Eval(1, 40, "val", 2.5), *job.facts[50:]]
    root = drawn(told(Job(job.rules, facts=facts)))
    (mark,) = having(having(root, "loss")[0], "evaluation")
    assert path_x(mark)[0] == pytest.approx(x(40), abs=0.1)


def test_hostile_names_stay_text():
    picture = chart(told(run()))
    assert "<script" not in picture
    assert "\x00" not in picture
    assert "\u202e" not in picture
    assert any(HOSTILE[:12] in text for text in texts(ET.fromstring(picture)))


def test_a_held_run_says_so_and_keeps_every_rollback():
    story = told(run(hopeless))
    root = drawn(story)
    assert story.state.status == "held"
    assert len(having(root, "rollback")) == sum(o.action.verb == "rollback" for o in story.actions()) >= 2
    assert any(text.startswith("held · ") for text in texts(root))


def test_what_was_only_decided_is_dashed():
    story = told(run(mode="observe"), "observe")
    (arrow,) = having(drawn(story), "rollback")
    assert next(arrow.iter(f"{NS}path")).get("stroke-dasharray")
    assert any(text.startswith("not applied: ") for text in texts(arrow))
    assert not having(drawn(story), "cut")


@pytest.mark.parametrize("upto", [0, 1, 2, 3, 4, 5, 60, 760, 780])
def test_a_run_cut_anywhere_is_drawn(upto):
    root = drawn(told(run(), upto=upto))
    assert bool(having(root, "kept")) == (upto > 5)


def test_a_run_without_steps_says_so():
    facts = [Supervised(1, 0.0, "d1", "0"), Launched(1, 0, "", "h", 1, 1.0)]
    root = drawn(told(Job(run().rules, facts=facts)))
    assert any("no steps yet" in text for text in texts(root))


def test_labels_never_lie_on_each_other():
    story = told(run())
    spike, level = story.incidents()
    many = [spike._replace(id=n, onset=9 * n, severity="low" if n % 3 else "high") for n in range(3, 130)]
    story = replace(story, state=story.state._replace(incidents=(spike, level, *many)))
    placed = labels(story, Scale(0, story.state.frontier, LEFT, RIGHT))
    assert len(story.incidents()) > len(placed) > 20
    assert {2, 3, 6} <= {label.incident.id for label in placed}
    for lane in range(3):
        row = sorted((label.left, label.right) for label in placed if label.lane == lane)
        assert all(a[1] < b[0] for a, b in pairwise(row))
