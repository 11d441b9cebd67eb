"""The project's own code is edited between two runs: the log stays, and no message comes twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt.adapters.sparksession.reading import definitions
from dbt.adapters.sparksession.reading.imported_code import ImportedCode

from tests.support.warehouse import Warehouse, lines_of, sample_days


@pytest.mark.in_turn
def test_an_edit_of_the_code_that_reads_the_log_refuses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(tmp_path)
    lines = [line for line in lines_of(sample_days()[0][1][0]) if b'"order_info"' in line][:200]
    warehouse.land_lines(lines[:150], 0)
    selected = "ods_binlog ods_shop__order_info"
    warehouse.build(selected)
    before = warehouse.column("select count(*) from dw.ods_shop__order_info")
    imported = definitions.imported_code

    def edited(code: str, root: Path) -> ImportedCode | None:
        found = imported(code, root)
        return found and found._replace(mark=f"{found.mark} and an edit")

    monkeypatch.setattr(definitions, "imported_code", edited)

    for landed in (150, 200):
        if landed > 150:
            warehouse.land_lines(lines[150:], 150)
        warehouse.build(selected)
        assert warehouse.column("select count(*) from dw.ods_binlog") == [landed]
    warehouse.build(selected)

    assert warehouse.column("select count(*) from dw.ods_binlog") == [200]
    assert warehouse.column("select count(*) from dw.ods_shop__order_info") > before
