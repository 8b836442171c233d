"""README's picture of the page is one that `python -m tests.page.screenshot` takes."""

import pytest

from tests.page.browser import Browser
from tests.page.screenshot import PICTURE, SIZE, picture, shop, size_of

ROOT = PICTURE.parents[2]
LARGEST = 200_000
"""Bytes: whoever reads README loads it."""


def test_the_picture_is_there_has_its_size_and_is_linked() -> None:
    png = PICTURE.read_bytes()
    assert size_of(png) == SIZE
    assert len(png) <= LARGEST
    linked = [
        path.name for path in (ROOT / "README.md", ROOT / "docs/page.md") if "images/page.png)" in path.read_text()
    ]
    assert linked, "nothing shows it"


@pytest.mark.long
def test_the_picture_can_be_taken_again(browser: Browser) -> None:
    with shop() as (running, moment):
        # So many that it is an incident at any speed of this machine.
        assert size_of(picture(browser, running, lambda: moment(300))) == SIZE
