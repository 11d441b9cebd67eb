"""No function that prints numbers again is asked for a value.

get_json_object writes 648.10 as 648.1, and more digits than a double's rounded. So it is for names,
statements, whole images' keys, and a schema's types.
"""

from __future__ import annotations

from tests.support.dbt_project import REPO

# format -> what is asked of what
USES = {
    ("maxwell", '"payload", f"$.{part}.{name}"'),
    ("maxwell", '"payload", "$.sql"'),
    ("canal", '"payload", "$.sql"'),
    ("debezium", '"payload", "$.payload"'),
    ("debezium", 'payload, "$.schema"'),
    ("debezium", 'raw, "$.value"'),
    ("debezium", 'raw, "$.scale"'),
}


def test_no_function_that_reads_numbers_as_doubles_is_used_on_values() -> None:
    folder = REPO / "python_udfs" / "ingestion" / "formats"
    used = {
        (
            path.relative_to(folder).parts[0].removesuffix(".py"),
            line.split("get_json_object(")[1].split(")")[0],
        )
        for path in folder.rglob("*.py")
        for line in path.read_text().splitlines()
        if "get_json_object(" in line
    }

    assert used == USES
