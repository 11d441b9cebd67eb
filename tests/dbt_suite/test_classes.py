"""The classes of dbt's suite that pass here, as parity.yml lists them.

A class is taken as it is, or as overrides.py changes it. See docs/reference/dbt-suite.md.
"""

from __future__ import annotations

import pytest

from tests.dbt_suite.overrides import changed
from tests.dbt_suite.suite import cases, parity

for _name, _entry in parity().items():
    if _entry.outcome == "passes" and _name in cases():
        _case = changed().get(_name, cases()[_name])
        _title = "Test" + _name.replace(".", "_")
        _marks = [pytest.mark.in_turn if _entry.in_ci else pytest.mark.soak]
        globals()[_title] = type(_title, (_case,), {"__module__": __name__, "pytestmark": _marks})
