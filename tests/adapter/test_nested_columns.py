"""Structs, arrays and maps whose parts are others than those of a model's table."""

from __future__ import annotations

# name -> (the first run's value, a later run's, whether the table can't hold it)
VALUES = {
    "swapped": ("named_struct('a', 1, 'b', 2)", "named_struct('b', 2, 'a', 1)", True),
    "more": ("named_struct('a', 1)", "named_struct('a', 1, 'b', 2)", True),
    "fewer": ("named_struct('a', 1, 'b', 2)", "named_struct('a', 1)", True),
    "renamed": ("named_struct('a', 1)", "named_struct('c', 1)", True),
    "in_array": (
        "array(named_struct('a', 1, 'b', 2))", "array(named_struct('b', 2, 'a', 1))", True
    ),
    "in_map": (
        "map('k', named_struct('a', 1, 'b', 2))", "map('k', named_struct('b', 2, 'a', 1))", True
    ),
    "rounded": ("named_struct('a', 1.50BD)", "named_struct('a', 1.125BD)", True),
    "same": (
        "named_struct('a', 1.5BD, '`b,c`', map(1, array('x')))",
        "named_struct('A', 2.5BD, '`b,c`', map(2, array('y')))",
        False,
    ),
}  # fmt: skip
WAYS = {
    "added": "",
    "merged": ", unique_key='id'",
    "by_day": ", incremental_strategy='replace_partitions', partition_by='id'",
}
READS = {
    "by_day": "{{ changed_partitions(source('src', 'x'), by='id') }}",
}


def test_fields_of_other_names_or_in_another_order_are_refused(make_project):
    files = {"models/sources.yml": "sources: [{name: src, tables: [{name: x}]}]"}
    for name, (first, later, _) in VALUES.items():
        value = f"{{{{ {later!r} if is_incremental() else {first!r} }}}}"
        for way, settings in WAYS.items():
            if way == "added" or name == "swapped":
                files[f"models/{name}_{way}.sql"] = (
                    f"{{{{ config(materialized='incremental'{settings}) }}}}"
                    f" select id, {value} as s from "
                    + READS.get(way, "{{ new_rows(source('src', 'x')) }}")
                )
    project = make_project(files)
    project.query("create namespace if not exists src")
    project.query("create table src.x (id int) using iceberg partitioned by (id)")
    project.query("insert into src.x values (1)")
    project.run("run")
    project.query("insert into src.x values (2)")
    results = project.run("run", expect_ok=False).results
    for name, result in results.items():
        (value,) = (value for value in VALUES if name in [f"{value}_{way}" for way in WAYS])
        is_refused = VALUES[value][2]
        assert result.status == ("error" if is_refused else "success"), (name, result.message)
        if is_refused:
            assert "column s was" in result.message, (name, result.message)
            assert "or hold them in other fields" in result.message
