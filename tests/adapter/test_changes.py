"""What changed between two versions: applied to the older version
it gives the other, whatever was done."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from dbt.adapters.sparksession.reading.retract_sql import changed_keys, same_rows
from dbt_common.exceptions import CompilationError
from pyspark.sql.types import (
    CalendarIntervalType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from tests.support.dbt_project import DbtProject

pytestmark = pytest.mark.in_turn

# every pair of versions of the var `pairs` in one query
FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: keyed}, {name: merged_on_read}, {name: keyless}]
    """,
    "models/found.sql": """
        {{ config(materialized='table') }}
        {%- for table, first, last in var('pairs') %}
        {%- set by = none if table == 'keyless' else ['id'] %}
        select '{{ table }}' as table_name, {{ loop.index0 }} as pair, id, part, v, row_kind, sign
        from {{ changes_between(source('src', table), first, last, by) }}
        {{ 'union all' if not loop.last }}
        {%- endfor %}
    """,
    "models/unknown.sql": "select * from {{ changes_between(source('src', 'keyed'), 1) }}",
}
TABLES = {
    "keyed": "partitioned by (part)",
    "merged_on_read": "tblproperties ('write.delete.mode'='merge-on-read', "
    "'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read')",
    "keyless": "partitioned by (part)",
}
KEYS = range(1, 15)


class Versions:
    """A table that anything may be done to, with its rows after each step."""

    def __init__(self, project: DbtProject, name: str, rng: random.Random) -> None:
        self.project, self.name, self.rng = project, name, rng
        self.table = f"src.{name}"
        project.query(
            f"create or replace table {self.table} (id int, part string, v int) "
            f"using iceberg {TABLES[name]}"
        )
        self.rows: dict[int, Counter] = {}
        self.order: list[int] = []
        self.done: list[tuple[str, int]] = []
        self.change(self.append)

    def some_rows(self, count: int, keys: Any = KEYS) -> str:
        rng = self.rng
        chosen = rng.sample(list(keys), min(count, len(keys)))
        cells = (f"({item}, '{rng.choice('abc')}', {rng.randint(0, 2)})" for item in chosen)
        return ", ".join(cells)

    def append(self) -> None:
        held = {row["id"] for row in self.project.query(f"select id from {self.table}")}
        free = [key for key in KEYS if key not in held] if self.name != "keyless" else KEYS
        if free:
            self.project.query(f"insert into {self.table} values {self.some_rows(4, free)}")

    def merge(self) -> None:
        rows = self.some_rows(5)
        self.project.query(
            f"merge into {self.table} as t using (select * from values {rows} as s(id, part, v)) "
            "as s on t.id = s.id when matched and s.v = 0 then delete when matched then update "
            "set part = s.part, v = s.v when not matched then insert *"
        )

    def update(self) -> None:
        self.project.query(f"update {self.table} set v = v + 1 where id % 4 = {self.pick(4)}")

    def update_in_vain(self) -> None:
        self.project.query(f"update {self.table} set v = v where id % 2 = 0")

    def delete(self) -> None:
        self.project.query(f"delete from {self.table} where id % 5 = {self.pick(5)}")

    def empty_a_partition(self) -> None:
        self.project.query(f"delete from {self.table} where part = '{self.rng.choice('abc')}'")

    def overwrite(self) -> None:
        whole = "partitioned by" not in TABLES[self.name]
        rows = "true" if whole else f"part = '{self.rng.choice('abc')}'"
        self.project.query(
            f"insert into {self.table} replace where {rows} "
            f"select id, part, v + id % 2 from {self.table} where {rows}"
        )

    def compact(self) -> None:
        self.project.query(
            f"call lake.system.rewrite_data_files(table => 'lake.{self.table}', "
            "options => map('rewrite-all', 'true'))"
        )

    def replace(self) -> None:
        self.project.query(
            f"create or replace table {self.table} using iceberg {TABLES[self.name]} "
            f"as select * from {self.table} where id <> {self.pick(14)}"
        )

    def pick(self, below: int) -> int:
        return self.rng.randrange(below)

    def change(self, step: Any) -> None:
        step()
        head = self.project.query(f"select snapshot_id from {self.table}.refs where name = 'main'")[
            0
        ]["snapshot_id"]
        rows = self.project.query(f"select id, part, v from {self.table}")
        self.done.append((step.__name__, head))
        self.rows[head] = Counter(tuple(row.values()) for row in rows)
        if head not in self.order:
            self.order.append(head)

    def steps(self) -> list[Any]:
        found = [self.append, self.merge, self.update, self.update_in_vain, self.delete]
        found += [self.empty_a_partition, self.overwrite, self.compact, self.replace]
        if self.name == "keyless":  # a merge may match a row of it twice
            found.remove(self.merge)
        return found


def applied(rows: Counter, changes: list[dict[str, Any]], keyed: bool) -> Counter:
    """The rows after the changes, which must fit them."""
    after = Counter(rows)
    kinds = {"-U": -1, "-D": -1, "+U": 1, "+I": 1}
    for change in sorted(changes, key=lambda change: change["sign"]):
        row = (change["id"], change["part"], change["v"])
        assert kinds[change["row_kind"]] == change["sign"]
        after[row] += change["sign"]
        assert after[row] >= 0, f"{change} takes back what isn't there"
    if keyed:
        by_key: dict[int, list[dict]] = {}
        for change in changes:
            by_key.setdefault(change["id"], []).append(change)
        for of_key in by_key.values():
            reported = sorted(row["row_kind"] for row in of_key)
            assert reported in (["+I"], ["-D"], ["+U", "-U"]), of_key
            images = {(row["part"], row["v"]) for row in of_key}
            assert len(images) == len(of_key), f"a pair that changes nothing: {of_key}"
    return +after


def test_changes_applied_to_a_version_give_the_other(make_project):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    tables = {name: Versions(project, name, rng) for name in TABLES}
    pairs, expected = [], []
    for name, table in tables.items():
        steps = table.steps()
        rng.shuffle(steps)
        for step in steps:
            table.change(step)
        order = table.order
        spans = [(i, i + 1) for i in range(len(order) - 1)]
        spans += [(i, j) for i, j in (sorted(rng.sample(range(len(order)), 2)),) * 2]
        spans += [(len(order) - 1, len(order) - 1)]
        for i, j in spans:
            pairs.append([name, order[i], order[j]])
            expected.append((table.rows[order[i]], table.rows[order[j]]))
        pairs.append([name, None, order[-1]])
        expected.append((Counter(), table.rows[order[-1]]))
    project.run("run", "-s", "found", vars={"pairs": pairs})
    found: dict[int, list[dict]] = {}
    for row in project.query("select * from dw.found"):
        found.setdefault(row["pair"], []).append(row)
    for number, (before, after) in enumerate(expected):
        keyed = pairs[number][0] != "keyless"
        got = applied(before, found.get(number, []), keyed)
        where = f"seed {seed}: {pairs[number]} of {tables[pairs[number][0]].done}"
        assert got == after, where
    print(f"{len(pairs)} pairs of versions, {sum(map(len, found.values()))} changes, 0 differ")
    outcome = project.run("run", "-s", "unknown", vars={"pairs": pairs}, expect_ok=False)
    message = outcome.results["unknown"].message
    assert "src.keyed has no snapshot 1" in message


SNAPSHOT = {
    "models/sources.yml": "sources: [{name: src, tables: [{name: people}]}]",
    "snapshots/versions.yml": """
        snapshots:
          - name: versions
            relation: source('src', 'people')
            config: {unique_key: id, strategy: check, check_cols: all, hard_deletes: invalidate}
    """,
    "models/reported.sql": """
        {{ config(materialized='incremental', on_definition_change='accept') }}
        select
            id, name, dbt_valid_to is null as is_current, row_kind, sign, {{ var('step') }} as step
        from {{ new_changes(ref('versions')) }}
    """,
    "models/between.sql": """
        {{ config(materialized='table') }}
        select id, name, dbt_valid_to is null as is_current, row_kind, sign
        from {{ changes_between(ref('versions'), var('first')) }}
    """,
}


def test_changes_of_a_snapshot_are_those_of_its_versions(make_project):
    project = make_project(SNAPSHOT)
    project.query("create namespace if not exists src")
    project.query("create table src.people (id int, name string) using iceberg")
    project.query("insert into src.people values (1, 'Ann'), (2, 'Bob')")
    steps = [
        None,
        "update src.people set name = 'Anna' where id = 1",
        "delete from src.people where id = 2",
    ]
    expected = [
        {(1, "Ann", True, "+I"), (2, "Bob", True, "+I")},
        {(1, "Ann", True, "-U"), (1, "Ann", False, "+U"), (1, "Anna", True, "+I")},
        {(2, "Bob", True, "-U"), (2, "Bob", False, "+U")},
    ]
    heads = []
    for number, statement in enumerate(steps):
        if statement:
            project.query(statement)
        variables = {"step": number, "first": heads[0] if heads else 0}
        project.run("snapshot", vars=variables)
        heads += project.column("select snapshot_id from dw.versions.refs where name = 'main'")
        project.run("run", "-s", "reported", vars=variables)
        rows = project.query(f"select * except (step, sign) from dw.reported where step = {number}")
        assert sorted(tuple(row.values()) for row in rows) == sorted(expected[number])
    project.run("run", "-s", "between", vars=variables)
    rows = project.query("select * except (sign) from dw.between")
    assert sorted(tuple(row.values()) for row in rows) == sorted(expected[1] | expected[2])


APPENDED = "{{ config(materialized='incremental', incremental_strategy='append') }}\n"
RETOLD = {
    "models/sources.yml": """
        sources: [{name: src, tables: [{name: held}, {name: other}, {name: log}, {name: signed}]}]
    """,
    "models/log_view.sql": """
        {{ config(materialized='view', meta={'row_wise': true}) }}
        select id, v from {{ source('src', 'log') }}
    """,
    "models/signed_view.sql": """
        {{ config(materialized='view', meta={'row_wise': true}) }}
        select id, v, 1 as sign from {{ source('src', 'log') }}
    """,
    "models/one.sql": APPENDED + "select * from {{ new_changes(source('src', 'held'), by='id') }}",
    "models/both.sql": APPENDED
    + """
        select * from {{ new_changes(source('src', 'held'), by='id') }}
        union all
        select * from {{ new_changes(source('src', 'other'), by='id') }}
    """,
    "models/own_rows.sql": APPENDED
    + """
        select * from {{ new_changes(source('src', 'held'), by='id') }} as reported
        {% if is_incremental() %}
        where reported.id not in (select id from {{ this }})
        {% endif %}
    """,
    "models/of_log.sql": APPENDED + "select * from {{ new_changes(ref('log_view')) }}",
    "models/of_signed.sql": APPENDED + "select * from {{ new_changes(ref('signed_view')) }}",
    "models/py_one.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_changes(dbt.source("src", "held"), by="id")
    """,
}


def comes_to(project: DbtProject, model: str) -> list[tuple]:
    """Rows that the changes in a model come to, each with how often."""
    rows = project.query(
        f"select id, v, sum(sign) as n from dw.{model} group by id, v having n <> 0 order by all"
    )
    return [tuple(row.values()) for row in rows]


def test_changes_that_are_given_again_replace_those_that_were_appended(make_project):
    project = make_project(RETOLD)
    project.query("create namespace if not exists src")
    for table in ("held", "other", "log"):
        project.query(f"create table src.{table} (id int, v string) using iceberg")
        project.query(f"insert into src.{table} values (1, 'a'), (2, 'b')")
    everything = ("run", "--exclude", "of_signed")
    project.run(*everything)
    project.query("insert into src.log values (3, 'c')")
    project.query("update src.held set v = 'x' where id = 1")
    outcome = project.run(*everything)
    held = [(1, "x", 1), (2, "b", 1)]
    assert outcome.results["one"].message == "+2 rows"
    assert comes_to(project, "one") == comes_to(project, "py_one") == held
    assert comes_to(project, "of_log") == [(1, "a", 1), (2, "b", 1), (3, "c", 1)]
    kinds = project.column("select row_kind from dw.of_log")
    assert kinds == ["+I"] * 3  # the view doesn't say what its rows are

    project.query("update src.held set v = 'y' where id = 2")
    project.query("insert into src.held values (4, 'd')")
    project.query("delete from src.log where id = 1")
    project.query(
        "call lake.system.expire_snapshots(table => 'src.held', retain_last => 1, "
        "older_than => timestamp '2100-01-01 00:00:00')"
    )
    project.run(*everything)
    held = [(1, "x", 1), (2, "y", 1), (4, "d", 1)]
    assert comes_to(project, "one") == comes_to(project, "py_one") == held
    assert comes_to(project, "own_rows") == held
    assert comes_to(project, "both") == [
        *((1, "a", 1), (1, "x", 1), (2, "b", 1), (2, "y", 1)),
        (4, "d", 1),
    ]
    assert comes_to(project, "of_log") == [(2, "b", 1), (3, "c", 1)]

    project.query("insert into src.held values (5, 'e')")
    outcome = project.run(*everything)
    for model in ("one", "py_one", "both", "own_rows"):
        assert outcome.results[model].message == "+1 rows"
    assert outcome.results["of_log"].message == "nothing new"

    outcome = project.run("run", "-s", "signed_view", "of_signed", expect_ok=False)
    message = outcome.results["of_signed"].message
    assert "new_changes: dw.signed_view has a column sign but no row_kind" in message


def test_changes_that_are_given_again_replace_those_that_were_merged(make_project):
    rows = "select id, v from {{ new_changes(source('src', 'held'), by='id') }} where sign > 0"
    project = make_project(
        {
            "models/sources.yml": "sources: [{name: src, tables: [{name: held}]}]",
            "models/merged.sql": "{{ config(materialized='incremental', unique_key='id', "
            "incremental_strategy='merge') }} " + rows,
        }
    )
    project.query("create namespace if not exists src")
    project.query("create or replace table src.held (id int, v string) using iceberg")
    project.query("insert into src.held values (1, 'a'), (2, 'b')")
    project.run("run")
    project.query("delete from src.held where id = 2")
    project.query("insert into src.held values (3, 'c')")
    project.query(
        "call lake.system.expire_snapshots(table => 'src.held', retain_last => 1, "
        "older_than => timestamp '2100-01-01 00:00:00')"
    )
    project.run("run")
    assert project.column("select id from dw.merged order by id") == [1, 3]
    project.query("insert into src.held values (4, 'd')")
    assert project.run("run").results["merged"].message.startswith("+1 rows")
    assert project.column("select id from dw.merged order by id") == [1, 3, 4]
    project.query("delete from src.held where id = 3")  # by a change that is known
    project.query("update src.held set v = 'e' where id = 4")
    project.run("run")
    assert project.column("select id || v from dw.merged order by id") == ["1a", "4e"]


MAPS = "m map<string, int>, s struct<a: int, m: map<string, array<int>>>, "
MAPS += "l array<map<int, string>>, mm map<string, map<string, int>>"


def test_changes_of_maps_are_found(make_project):
    project = make_project(
        {
            "models/sources.yml": "sources: [{name: src, tables: [{name: maps}]}]",
            "models/found.sql": """
                {{ config(materialized='table') }}
                {% for by in (['id'], none) %}
                select *, {{ loop.index0 }} as keyless
                from {{ changes_between(source('src', 'maps'), var('first'), none, by) }}
                {{ 'union all' if not loop.last }}
                {% endfor %}
            """,
        }
    )
    project.query("create namespace if not exists src")
    project.query(f"create table src.maps (id int, {MAPS}) using iceberg")

    def row(
        key: int, m: str = "'a', 1, 'b', 2", s: str = "'x', array(1)", mm: str = "'p', 1"
    ) -> str:
        return (
            f"({key}, map({m}), named_struct('a', 1, 'm', map({s})), "
            f"array(map(1, 'x'), null), map('o', map({mm}), 'n', null))"
        )

    rows = ", ".join(row(number) for number in range(1, 6))
    project.query(f"insert into src.maps values {rows}, (6, null, null, null, null)")
    first = project.column("select snapshot_id from src.maps.refs where name = 'main'")[0]
    rows = [
        row(1, m="'b', 2, 'a', 1"),  # as it was
        row(2, m="'b', 2, 'a', 3"),
        row(3, s="'x', array(1, 2)"),
        row(4, mm="'p', null"),
        "(6, null, null, null, null)",
        "(7, null, null, null, null)",
    ]
    project.query(f"insert overwrite src.maps values {', '.join(rows)}")
    project.run("run", vars={"first": first})
    found = project.query("select * from dw.found where keyless = 0")
    reported = sorted((row["id"], row["row_kind"]) for row in found)
    assert reported == [
        *((2, "+U"), (2, "-U"), (3, "+U"), (3, "-U"), (4, "+U"), (4, "-U")),
        *((5, "-D"), (7, "+I")),
    ]
    new = {row["id"]: row for row in found if row["row_kind"] == "+U"}
    assert new[2]["m"] == {"a": 3, "b": 2}
    assert new[3]["s"] == {"a": 1, "m": {"x": [1, 2]}}
    assert new[4]["mm"] == {"o": {"p": None}, "n": None}
    found = project.query("select id, row_kind from dw.found where keyless = 1")
    kinds = {"+U": "+I", "-U": "-D"}
    reported = sorted((key, kinds.get(kind, kind)) for key, kind in reported)
    assert sorted(tuple(item.values()) for item in found) == reported

    text = "(select {} as id, map('k', parse_json('{}')) as v)"
    kinds = {"id": IntegerType(), "v": MapType(StringType(), VariantType())}
    for after, count in (('{"b": [1], "a": 2}', 0), ('{"a": 2, "b": [2]}', 2)):
        before = text.format(1, '{"a": 2, "b": [1]}')
        sql = changed_keys(
            before, text.format(1, after), list(kinds), ["id"], same=same_rows(kinds)
        )
        assert len(project.query(f"select id, row_kind from ({sql})")) == count


def test_changes_by_a_key_that_several_rows_have_are_refused(make_project):
    added = "{{ config(materialized='incremental', incremental_strategy='append') }} "
    project = make_project(
        {
            "models/sources.yml": "sources: [{name: src, tables: [{name: twice}]}]",
            "models/by_key.sql": added
            + "select id, v, sign from {{ new_changes(source('src', 'twice'), by='id') }}",
            "models/by_rows.sql": added
            + "select id, v, sign from {{ new_changes(source('src', 'twice')) }}",
        }
    )
    project.query("create namespace if not exists src")
    project.query("create or replace table src.twice (id int, v int) using iceberg")
    project.query("insert into src.twice values (1, 10), (1, 20), (2, 30)")
    project.run("run")
    project.query("update src.twice set v = v + 1 where v = 10")

    results = project.run("run", expect_ok=False).results

    assert "can't be found by the key (id), as several rows" in results["by_key"].message
    rows = project.query("select id, v, sum(sign) as n from dw.by_rows group by id, v order by v")
    left = [(row["id"], row["v"]) for row in rows if row["n"]]
    assert left == [(1, 11), (1, 20), (2, 30)]


def test_a_column_that_nothing_can_be_compared_by_is_named():
    kind = StructType().add("span", CalendarIntervalType())
    with pytest.raises(
        CompilationError, match="unknown of column held, since values of type interval"
    ):
        same_rows({"id": IntegerType(), "held": kind})


@pytest.mark.soak
@pytest.mark.parametrize("_", range(20))
def test_many_changes_applied_to_a_version_give_the_other(make_project, _: int):
    test_changes_applied_to_a_version_give_the_other(make_project)
