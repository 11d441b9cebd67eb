"""What changed between two versions: applied to the one it gives the other, whatever was done."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.support.dbt_project import DbtProject

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
        cells = (f"({one}, '{rng.choice('abc')}', {rng.randint(0, 2)})" for one in chosen)
        return ", ".join(cells)

    def append(self) -> None:
        held = {row["id"] for row in self.project.query(f"select id from {self.table}")}
        free = [one for one in KEYS if one not in held] if self.name != "keyless" else KEYS
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
    for change in sorted(changes, key=lambda one: one["sign"]):
        row = (change["id"], change["part"], change["v"])
        assert kinds[change["row_kind"]] == change["sign"]
        after[row] += change["sign"]
        assert after[row] >= 0, f"{change} takes back what isn't there"
    if keyed:
        by_key: dict[int, list[dict]] = {}
        for change in changes:
            by_key.setdefault(change["id"], []).append(change)
        for of_key in by_key.values():
            told = sorted(one["row_kind"] for one in of_key)
            assert told in (["+I"], ["-D"], ["+U", "-U"]), of_key
            images = {(one["part"], one["v"]) for one in of_key}
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
    told = outcome.results["unknown"].message
    assert "src.keyed has no snapshot 1" in told


@pytest.mark.soak
@pytest.mark.parametrize("_", range(20))
def test_many_changes_applied_to_a_version_give_the_other(make_project, _: int):
    test_changes_applied_to_a_version_give_the_other(make_project)
