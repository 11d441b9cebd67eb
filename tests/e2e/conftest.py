from __future__ import annotations

import pytest

from tests.support.dbt_project import Outcome
from tests.support.warehouse import SAMPLE, Warehouse


@pytest.fixture(scope="session")
def first_build(tmp_path_factory: pytest.TempPathFactory) -> tuple[Warehouse, Outcome]:
    """The whole sample, landed and built at once, and what dbt printed of it."""
    warehouse = Warehouse(tmp_path_factory.mktemp("one_go"), compiles=True)
    warehouse.land(*sorted(SAMPLE.iterdir()))
    return warehouse, warehouse.build(everything=True)


@pytest.fixture(scope="session")
def in_one_go(first_build: tuple[Warehouse, Outcome]) -> Warehouse:
    """The whole sample, landed and built at once."""
    return first_build[0]
