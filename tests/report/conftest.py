from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chromium import Browser, browser


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if browser() is None:
        pytest.skip("no Chromium on the PATH: apt-get install chromium")
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
