"""The page: self-contained, escaped, and with the sentences and tables an engineer on call needs."""

from html.parser import HTMLParser
from typing import get_args

import pytest

from orchestrator.core.facts import Cause, Exited, Supervised, step_of
from orchestrator.review import report_words
from orchestrator.review.report_page import page
from tests.review.report_runs import HOSTILE, hopeless, run, text, told
from tests.simulation import Job


class Reader(HTMLParser):
    """The elements with their attributes, and the text by section title."""

    def __init__(self, document):
        super().__init__()
        self.tags, self.sections, self._open, self._title = [], {}, [], ""
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] == "h2":
            self._title = data
        else:
            self.sections[self._title] = self.sections.get(self._title, "") + data + " "


@pytest.fixture(scope="module")
def story():
    return told(run())


@pytest.fixture(scope="module")
def read(story):
    return Reader(page(story))


def test_nothing_runs_and_nothing_is_fetched(story, read):
    names = {tag for tag, _ in read.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "image", "use", "foreignobject"}
    for _, attributes in read.tags:
        assert not {"src", "href", "xlink:href"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert "url(" not in page(story)
    assert "@import" not in page(story)


def test_hostile_names_stay_text(read):
    assert "</text><script>alert('x')</script>\ufffd\ufffd&\"shard" in read.sections["Quarantine"]
    assert HOSTILE not in read.sections["Quarantine"]


def test_what_happened_is_told_with_why_done_and_confirmed(story, read):
    told_ = read.sections["What happened"]
    back = next(o.action for o in story.actions() if o.action.verb == "rollback")
    assert "The run completed at step 1,200 of 1,200." in told_
    assert "From step 700 of attempt 1 on, the loss left its level and did not come back" in told_
    assert "against a threshold of" in told_
    assert f"rolled back to step {back.to_step:,}, learning rate × 0.5" in told_
    assert "Learning rate confirmed: lr 0.0005 at step" in told_
    assert "Over: the run passed the place with its level held." in told_


def test_the_batches_around_an_incident_are_told(read):
    told_ = read.sections["What happened"] + read.sections.get("Incidents", "")
    assert "step 400 (ids doc-400 and 7 more, longest 512, 16,000 tokens in the loss)" in told_


def test_the_tables_hold_every_action_checkpoint_and_limit(story, read):
    for ordered in story.actions():
        assert f" {ordered.action.verb} " in read.sections["Actions and their outcomes"]
    for step, _, path, verdict in story.checkpoints():
        assert f" {step:,} " in read.sections["Checkpoints"]
        assert path in read.sections["Checkpoints"]
        assert verdict.reason in read.sections["Checkpoints"]
    (_, _, expires) = story.state.levels.quarantine[0]
    assert f"{expires:,}" in read.sections["Quarantine"]
    assert "rollbacks 1 3 within 5,000 steps" in read.sections["Limits spent"]


def test_the_policy_is_there_whole_and_folded(read):
    assert text() in read.sections["Policy"]
    assert "d1" in read.sections["Policy"]
    assert ("details", {}) in read.tags


def test_another_policy_in_mid_run_is_the_one_in_force_and_both_are_named():
    other = text("observe")
    facts = [*run().facts[:60], Supervised(2, 99.0, "d2", "0", other), *run().facts[60:100]]
    story = told(Job(run().rules, facts=facts))
    read = Reader(page(story))
    assert (story.digest, story.policy_text) == ("d2", other)
    assert "In force:  d2 , mode observe." in read.sections["Policy"]
    assert "Supervisor 2 brought policy d2 at step" in read.sections["Policy"]


def test_a_held_run_tells_a_person_what_to_do():
    story = told(run(hopeless))
    told_ = Reader(page(story)).sections["What happened"]
    assert "The run is held for a person" in told_
    assert "orchestrate ctl runs/example release --why '...'" in told_


@pytest.mark.parametrize("upto", [0, 3, 60, 780])
def test_a_run_that_is_not_over_has_its_page(upto):
    read = Reader(page(told(run(), upto=upto)))
    assert {"What happened", "Checkpoints", "Quarantine", "Limits spent", "Policy"} <= set(read.sections)


def test_observed_only_is_said_as_not_done():
    story = told(run(mode="observe"), "observe")
    told_ = Reader(page(story)).sections["What happened"]
    assert "Not done, only decided: " in told_
    assert "Only decided, not done: rolled back to step" in report_words.headline(story)


def test_every_class_of_incident_has_its_words():
    from orchestrator.core.state import IncidentClass

    classes = {name for part in get_args(IncidentClass) for name in (get_args(part) or (part,))}
    assert classes == set(report_words.WHAT)


@pytest.mark.parametrize("cause", get_args(Cause))
def test_however_a_job_ended_it_has_its_page(cause):
    facts = [*run().facts[:80], Exited(1, 1, None, cause, "why it ended", 500.0)]
    story = told(Job(run().rules, facts=facts))
    assert "why it ended" in page(story)
    assert report_words.headline(story)


def test_a_value_that_is_not_finite_is_marked_and_told():
    facts = [*run().facts[:80], step_of(1, 500, {"loss": float("nan")}, time=500.0)]
    document = page(told(Job(run().rules, facts=facts)))
    assert 'class="nonfinite"' in document
    assert "a value was not finite" in document
