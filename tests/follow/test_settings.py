"""Settings of `make follow` that can't be: one sentence each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.following import loop
from tools.following.health import Health, HealthError, HealthFiles


def test_a_port_or_folder_that_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    files = HealthFiles(tmp_path / "first", Health(), 0)
    try:
        for port in (files.port, 70_000):
            with pytest.raises(HealthError, match=rf"^Port {port} of 127\.0\.0\.1 can't be taken"):
                HealthFiles(tmp_path / "second", Health(), port)
    finally:
        files.close()
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(HealthError, match="The health files can't be written into "):
        HealthFiles(tmp_path / "file", Health())


@pytest.mark.parametrize("text", ["03:00Z-05:00Z", "03:00-05:00+08:00", "03:00", "3 to 5"])
def test_times_that_are_no_window_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be two times of the day, got "):
        loop.window_of(text)
