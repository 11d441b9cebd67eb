"""What macros ask of the adapter's services is there: Jinja reports it only where the line is
run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from dbt.adapters.base.meta import available_property
from dbt.adapters.sparksession.impl import SparkSessionAdapter

from tests.support.dbt_project import REPO

FOLDERS = ("macros", "models", "snapshots", "tests/dbt", "python_udfs/sparksession_adapter/dbt")
CALL = re.compile(r"(?<![\w.'\"/])adapter\.(\w+)(?:\.(\w+)\()?")


def services() -> dict[str, type]:
    """Name of each service that macros may ask -> its class."""
    found = {}
    for name, value in vars(SparkSessionAdapter).items():
        if isinstance(value, available_property):
            assert value.fget is not None
            found[name] = get_type_hints(value.fget)["return"]
    return found


def calls() -> Iterator[tuple[Path, str, str | None]]:
    """File, name behind `adapter.`, and the service's method, of all macros and models."""
    for folder in FOLDERS:
        for path in sorted((REPO / folder).rglob("*.sql")):
            for found in CALL.finditer(path.read_text(encoding="utf-8")):
                yield path, found[1], found[2]


def test_macros_ask_services_for_methods_that_they_have() -> None:
    known, wrong, seen = services(), [], set()
    for path, name, method in calls():
        seen.add(name)
        if name in known:
            if method is None or not callable(getattr(known[name], method, None)):
                wrong.append(f"{path.relative_to(REPO)}: adapter.{name}.{method}")
        elif name not in SparkSessionAdapter._available_ or method is not None:
            wrong.append(f"{path.relative_to(REPO)}: adapter.{name}")
    assert not wrong, "\n".join(wrong)
    # a service that no macro asks needs no property
    assert known.keys() <= seen, sorted(known.keys() - seen)
