from __future__ import annotations

import pytest

from tests.support.warehouse import SAMPLE, Warehouse


@pytest.fixture(scope="session")
def in_one_go(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The whole sample, landed and built at once."""
    warehouse = Warehouse(tmp_path_factory.mktemp("one_go"))
    warehouse.land(*sorted(SAMPLE.iterdir()))
    warehouse.build(everything=True)
    return warehouse
