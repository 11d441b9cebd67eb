"""Models of a table's changes whose query leaves out, or can't count, the rows that take back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.dbt_project import DbtProject

pytestmark = pytest.mark.in_turn

CHANGES = "{{ new_changes(source('src', 'events'), by='id') }}"
BY_TIME, BY_KIND = {"sequence": "at"}, {"sequence": "at", "row_kind": "row_kind"}
BY_COUNT = BY_KIND | {"count_rows": True}
LAST_VALUE = BY_KIND | {"aggregates": {"v": "last_non_null_value"}}
BY_COUNTED = {"row_kind": "row_kind", "count_rows": True}
HIGHEST = {"aggregates": {"n": "max"}}
COUNT = {"aggregates": {"n": "sum"}}
# model -> its config, its query, and what the query would give of all rows
FOLDED = "materialized='folded', unique_key='id', fold={}"
MERGED = "materialized='incremental', unique_key={!r}"
ALL_ROWS = "select id, v, at from src.events"
OTHERS = "select o.id, o.name from {{ source('src', 'others') }} as o"
OF_OTHERS = "select o.id, o.name from src.others as o where o.parent in (select v from src.events)"
MODELS = {
    "by_kind": (
        FOLDED.format(BY_TIME),
        f"select id, v, at from {CHANGES} where row_kind in ('+I', '+U')",
        ALL_ROWS,
    ),
    "by_sign": (
        FOLDED.format(BY_TIME),
        f"with given as (select * from {CHANGES}) select id, v, at from given where sign > 0",
        ALL_ROWS,
    ),
    "highest": (
        FOLDED.format(HIGHEST),
        f"select id, v as n from {CHANGES} where sign > 0",
        "select id, v as n from src.events",
    ),
    "counted": (
        FOLDED.format(COUNT),
        f"select id, 1 as n from {CHANGES} where row_kind = '+I'",
        "select id, 1 as n from src.events",
    ),
    # its fold would take rows back, and gets none of them
    "kind_left_out": (
        FOLDED.format(BY_KIND),
        f"select id, v, at, row_kind from {CHANGES} where row_kind <> '-D'",
        ALL_ROWS,
    ),
    "renamed_sign": (
        FOLDED.format(BY_KIND),
        f"select id, v, at, row_kind from (select *, sign as comes from {CHANGES}) where comes > 0",
        ALL_ROWS,
    ),
    # rows change, or go, and others stand at their place, or behind it
    "same_place": (
        FOLDED.format(BY_KIND),
        f"select id, v, at, row_kind from {CHANGES}",
        ALL_ROWS,
    ),
    "last_values": (
        FOLDED.format(LAST_VALUE),
        f"select id, v, at, row_kind from {CHANGES}",
        ALL_ROWS,
    ),
    "several_of_key": (
        FOLDED.replace("'id'", "'half'").format(BY_COUNT),
        f"select id % 2 as half, v, at, row_kind from {CHANGES}",
        "select id % 2 as half, max_by(v, struct(at, v)) as v, max(at) as at from src.events "
        "group by half",
    ),
    "kind_of_its_own": (
        FOLDED.format({"aggregates": {"n": "sum"}, "row_kind": "row_kind"}),
        f"select id, v as n, '+I' as row_kind from {CHANGES}",
        "select id, v as n from src.events",
    ),
    "kind_of_another": (
        FOLDED.format({"aggregates": {"n": "sum"}, "row_kind": "row_kind"}),
        f"select c.id, c.v as n, k.row_kind from {CHANGES} as c "
        "left join (select '+I' as row_kind) as k on true",
        "select id, v as n from src.events",
    ),
    "merged": (
        MERGED.format("id"),
        f"select id, v, at from {CHANGES} where sign > 0 and v > 1",
        f"{ALL_ROWS} where v > 1",
    ),
    "merged_by_value": (
        MERGED.format("v"),
        f"select v, id from {CHANGES} where sign > 0",
        "select v, id from src.events",
    ),
    # their queries give what was taken back as if it were there
    "merged_all": (MERGED.format("id"), f"select id, v, at from {CHANGES}", ALL_ROWS),
    "merged_all_by_value": (
        MERGED.format("v"),
        f"select v, id from {CHANGES}",
        "select v, id from src.events",
    ),
    "merged_groups": (
        MERGED.format("v"),
        "select v, count(*) as n from {{ source('src', 'events') }} "
        f"where v in (select v from {CHANGES}) group by v",
        "select v, count(*) as n from src.events group by v",
    ),
    # the key of a group has another column's name
    "renamed_groups": (
        MERGED.format("id"),
        "select v as id, count(*) as n from {{ source('src', 'events') }} "
        f"where v in (select v from {CHANGES}) group by v",
        "select v as id, count(*) as n from src.events group by v",
    ),
    # rows of another table stay there when nothing chooses them any more
    "others_chosen": (
        MERGED.format("id"),
        f"{OTHERS} where parent in (select v from {CHANGES})",
        OF_OTHERS,
    ),
    "others_given": (
        MERGED.format("id"),
        f"{OTHERS} where exists (select 1 from {CHANGES} as c where c.v = o.parent and sign > 0)",
        OF_OTHERS,
    ),
    "others_joined": (
        MERGED.format("id"),
        f"{OTHERS} left semi join {CHANGES} as c on c.v = o.parent",
        OF_OTHERS,
    ),
}
IN_PYTHON = """
    def model(dbt, session):
        dbt.config({})
        changes = dbt.new_changes(dbt.source("src", "events"), by="id")
        return changes.where("sign > 0").select({})
"""
PYTHON = {
    "python_merged": (
        "materialized='incremental', unique_key='v'", "'v', 'id'", "select v, id from src.events"
    ),
    "python_folded": (FOLDED.format(BY_KIND), "'id', 'v', 'at', 'row_kind'", ALL_ROWS),
}  # fmt: skip
STEPS = (
    "insert into src.events values (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4)",
    "update src.events set v = 5, at = 9 where id = 2",
    "update src.events set v = 0, at = 10 where id = 3",
    "update src.events set v = -1 where id = 4",
    "update src.events set v = 7 where id = 4",
    "update src.events set v = v - 3 where id in (2, 4)",
    "delete from src.events where id = 4",
    "insert into src.events values (4, 4, 4), (5, 15, 5), (6, 6, 1)",
    "delete from src.events where id in (5, 6)",
    "delete from src.events where id = 1",
    "insert into src.events values (1, 1, 1)",
)


def wrong(project: DbtProject, names: Sequence[str], held: dict[str, str]) -> list[str]:
    """Models whose tables aren't what their query gives of all rows."""
    found = []
    for name in names:
        expected = project.query(f"select * from ({held[name]}) order by all")
        columns = ", ".join(expected[0])
        if project.query(f"select {columns} from dw.{name} order by all") != expected:
            found.append(name)
    return found


def project_over(make_project, files: dict[str, str], columns: str) -> DbtProject:
    """A project of these files, over a table src.events of these columns."""
    sources = {"models/sources.yml": "sources: [{name: src, tables: [{name: events}]}]"}
    project = make_project(sources | files)
    project.query("create namespace if not exists src")
    project.query(f"create table src.events ({columns}) using iceberg")
    return project


def test_what_was_taken_back_is_gone_where_the_query_leaves_it_out(make_project):
    tables = "[{name: events}, {name: others}]"
    files = {"models/sources.yml": f"sources: [{{name: src, tables: {tables}}}]"}
    for name, (config, query, _) in MODELS.items():
        files[f"models/{name}.sql"] = f"{{{{ config({config}) }}}} {query}"
    for name, (config, columns, _) in PYTHON.items():
        files[f"models/{name}.py"] = IN_PYTHON.format(config, columns)
    held = {name: parts[2] for name, parts in (MODELS | PYTHON).items()}
    project = project_over(make_project, files, "id int, v int, at int")
    project.query(
        "create table src.others using iceberg as select cast(id as int) as id, "
        "cast(6 - id as int) as parent, concat('o', id) as name from range(8)"
    )
    for statement in STEPS:
        project.query(statement)
        project.run("run")
        assert (statement, wrong(project, list(held), held)) == (statement, [])


def test_rows_that_change_under_their_keys_are_merged_alone(make_project):
    queries = {
        "all_rows": f"select id, v, uuid() as made from {CHANGES} where sign > 0",
        "of_few": f"select id, v, uuid() as made from {CHANGES} where sign > 0 and v > 100",
    }
    files = {}
    for name, query in queries.items():
        files[f"models/{name}.sql"] = f"{{{{ config({MERGED.format('id')}) }}}} {query}"
    project = project_over(make_project, files, "id int, v int")
    project.query("insert into src.events values (1, 1), (2, 101), (3, 102)")
    project.run("run")
    kept = {name: project.query(f"select * from dw.{name} where id = 3") for name in queries}
    project.query("update src.events set v = v + 1 where id < 3")
    project.run("run")
    assert project.column("select v from dw.all_rows order by id") == [2, 102, 102]
    assert project.column("select v from dw.of_few order by id") == [102, 102]
    for name, rows in kept.items():
        assert project.query(f"select * from dw.{name} where id = 3") == rows


def test_a_zipper_refuses_changes_that_keep_their_sequence(make_project):
    zipper = {"sequence": "n", "time": "at", "row_kind": "row_kind"}
    config = "materialized='folded', unique_key='id', zipper={}"
    query = f"select id, v, n, at, row_kind from {CHANGES}"
    files = {}
    for name, more in {"prices": {"unpaired_retraction": "ignored"}, "paired": {}}.items():
        files[f"models/{name}.sql"] = f"{{{{ config({config.format(zipper | more)}) }}}} {query}"
    project = project_over(make_project, files, "id int, v int, n int, at timestamp")
    project.query("insert into src.events select id, id, 1, timestamp'2020-01-01' from range(4)")
    project.run("run")
    project.query("update src.events set v = -1 where id = 2")
    results = project.run("run", expect_ok=False).results
    for name in ("prices", "paired"):
        assert (
            "1 rows have changed or left, and their key has no row of a higher n"
            in results[name].message
        )
        assert project.column(f"select v from dw.{name} where id = 2") == [2]
    project.query("update src.events set n = 2, at = timestamp'2020-01-02' where id = 2")
    project.run("run", "--select", "prices")
    versions = project.query("select v, is_current from dw.prices where id = 2 order by v")
    assert versions == [{"v": -1, "is_current": True}, {"v": 2, "is_current": False}]


def test_what_a_fold_resets_or_numbers_is_what_all_rows_give(make_project):
    of_group = FOLDED.replace("'id'", "'g'")
    given, by_group = f"select g, v, at, row_kind from {CHANGES}", "from src.events group by g"
    last = "row_number() over (partition by id order by at desc) as n"
    known = f"select g, max_by(v, at) filter (where v is not null) as v, max(at) as at {by_group}"
    models = {
        "known": (of_group.format(LAST_VALUE), given, known),
        "known_and_counted": (of_group.format(LAST_VALUE | {"count_rows": True}), given, known),
        # what is taken back has another key by then
        "by_chance": (
            FOLDED.replace("'id'", "'made'").format(COUNT | BY_COUNTED),
            f"select uuid() as made, 1 as n, row_kind from {CHANGES}",
            "select 1 as n from src.events",
        ),
        # of a row that kept its place, either image may be numbered first
        "numbered": (
            FOLDED.format(BY_KIND),
            f"select id, v, at, row_kind from (select *, {last} from {CHANGES}) where n = 1",
            ALL_ROWS,
        ),
    }
    sums = {"aggregates": {"v": "sum"}, "row_kind": "row_kind", "count_rows": True}
    python = IN_PYTHON.format(FOLDED.format(sums), "'id', 'v', 'row_kind'")
    files = {"models/without_deletes.py": python.replace("sign > 0", "row_kind <> '-D'")}
    for name, (config, query, _) in models.items():
        files[f"models/{name}.sql"] = f"{{{{ config({config}) }}}} {query}"
    held = {name: parts[2] for name, parts in models.items()}
    held["without_deletes"] = "select id, v from src.events"
    project = project_over(make_project, files, "id int, g int, v int, at int")
    for statements in (
        "insert into src.events values (1, 1, 5, 8), (2, 1, null, 9), (3, 3, 9, 3), (4, 4, 4, 4)",
        "update src.events set at = 10 where id = 2",
        "update src.events set v = 7 where id = 3",
        "update src.events set v = 8 where id = 3; delete from src.events where id = 4",
        "update src.events set v = 10, at = 4 where id = 3",
    ):
        for statement in statements.split("; "):
            project.query(statement)
        project.run("run")
        assert (statements, wrong(project, list(held), held)) == (statements, [])


def test_a_fold_that_ignores_deletes_keeps_rows_and_refuses_those_that_keep_their_place(
    make_project,
):
    groups = {"of_v": {"sequence": "at", "columns": "v", "on_delete": "ignore"}}
    highest = {"aggregates": {"v": {"function": "max", "ignore_retract": True}}}
    folds = {
        "kept": BY_KIND | {"on_delete": "ignore"},
        "kept_group": {"row_kind": "row_kind", "sequence_groups": groups},
        "highest": {"row_kind": "row_kind"} | highest,
    }
    files = {}
    for name, fold in folds.items():
        columns = "id, v" if name == "highest" else "id, v, at"
        query = f"select {columns}, row_kind from {CHANGES}"
        files[f"models/{name}.sql"] = f"{{{{ config({FOLDED.format(fold)}) }}}} {query}"
    project = project_over(make_project, files, "id int, v int, at int")
    project.query("insert into src.events values (1, 5, 1), (2, 5, 1), (3, 5, 1)")
    project.run("run")
    project.query("delete from src.events where id = 1")
    project.query("update src.events set v = 4, at = 2 where id = 2")
    project.run("run")
    for name, now in {"kept": 4, "kept_group": 4, "highest": 5}.items():
        held = project.query(f"select id, v from dw.{name} order by id")
        expected = [{"id": 1, "v": 5}, {"id": 2, "v": now}, {"id": 3, "v": 5}]
        assert (name, held) == (name, expected)
    project.query("update src.events set v = 3 where id = 3")
    results = project.run("run", expect_ok=False).results
    for name in ("kept", "kept_group"):
        assert "rows have changed and kept their place" in results[name].message
        assert project.column(f"select v from dw.{name} where id = 3") == [5]
    assert results["highest"].status == "success"
