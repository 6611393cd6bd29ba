"""Twenty random kills; `python -m tests.e2e.soak` makes two hundred."""

import pytest

from tests.e2e.soak import soak


@pytest.mark.timeout(300)
def test_twenty_random_kills_of_any_process_change_nothing_that_matters(tmp_path):
    assert soak(tmp_path, 20, seed=7).status == "completed"
