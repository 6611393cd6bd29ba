"""A short run of the fuzz of tests/bench/review: lint and the loader agree on whatever is written."""

from tests.bench.review.mutations import checked, policies, some


def test_lint_never_raises_and_never_accepts_what_the_loader_refuses():
    accepted = sum(checked(text) for text in some(150, seed=3))
    assert 0 < accepted < 150


def test_the_shipped_policies_themselves_are_accepted():
    assert all(checked(text) for text in policies())
