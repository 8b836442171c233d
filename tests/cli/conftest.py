"""Verbs may silence the log of their process, which is that of the tests, too."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def the_log_is_not_silenced_for_others() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)
