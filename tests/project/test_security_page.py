"""SECURITY.md names a test beside each threat: all of them are there."""

from __future__ import annotations

import re

from tests.support.dbt_project import REPO


def test_every_threat_has_a_test_that_is_there() -> None:
    text = (REPO / "SECURITY.md").read_text(encoding="utf-8")
    rows = text.partition("## Threats")[2].strip().splitlines()[2:]
    assert len(rows) > 12
    for row in rows:
        named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", row)
        assert named, row
        for path, name in named:
            code = (REPO / path).read_text(encoding="utf-8")
            assert not name or f"def {name}(" in code, f"{path}::{name}"
