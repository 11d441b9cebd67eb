"""A data test that passed before reads the rows alone that may fail since, and finds as much."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from dbt.adapters.sparksession.iceberg.metadata import has_same_columns, loaded
from dbt.adapters.sparksession.reading import touched_rows
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import REPO, DbtProject, Outcome
from tests.support.narrowed import record_queries
from tests.support.plans import opened_files, ran
from tests.support.small_warehouse import PROJECT, RAW_SOURCE, generic_tests

STEPS = int(os.environ.get("NARROWED_STEPS", "100"))
SEED = int(os.environ.get("NARROWED_SEED", random.randrange(10**6)))
NARROWED = " data tests had passed before and read the rows alone"
COLUMNS = "seq, id, part, value, name, valid_from, valid_to, is_current, kind as row_kind, sign"
PARTED = """
    {{{{ config(
        materialized='incremental', incremental_strategy='replace_partitions', partition_by='part'
    ) }}}}
    select seq, id, part, value, name, valid_from, valid_to, is_current, row_kind, sign
    from {{{{ changed_partitions(ref('appended'), by='part') }}}}
    where {rows}
"""
MODELS = {
    "appended": f"""
        {{{{ config(materialized='incremental', partition_by='part') }}}}
        select {COLUMNS} from {{{{ new_rows(source('raw', 'raw')) }}}}
        where not gone
    """,
    # in no version
    "singles": PARTED.replace("partition_by='part'", "partition_by='part', META")
    .format(rows="id < 1000")
    .replace("META", "meta={'published': false}"),
    "chains": PARTED.format(rows="id >= 1000"),
    # of each row by itself, in two copies
    "copies": """
        {{ config(materialized='view') }}
        with twice as (
            select seq, appended.id, value, name, explode(array(1, 2)) as copy
            from {{ ref('appended') }}
        )
        select * from twice where id < 1000 order by seq
    """,
    # a row of it depends on others
    "first_of_name": """
        {{ config(materialized='view') }}
        select * from {{ ref('appended') }} as rows where not exists (
            select 1 from {{ ref('appended') }} as earlier
            where earlier.name = rows.name and earlier.seq < rows.seq
        )
    """,
    "numbered": """
        {{ config(materialized='view') }}
        select id, row_number() over (partition by name order by seq) as place
        from {{ ref('appended') }} where id < 1000
    """,
    "of_singles_and_appended": """
        {{ config(materialized='view') }}
        select id from {{ ref('appended') }} where id < 1000
        union all select id from {{ ref('singles') }}
    """,
    "kept": """
        {{ config(
            materialized='folded',
            unique_key=['id', 'valid_from'],
            fold={
                'sequence': 'seq',
                'row_kind': 'row_kind',
                'count_rows': true,
                'hidden_columns': 'seq',
            },
        ) }}
        select
            seq, id, valid_from, part, value, name, valid_to, is_current,
            if(gone, '-D', '+I') as row_kind
        from {{ new_rows(source('raw', 'raw')) }}
    """,
}
WARN = "config: {severity: warn}"
OF_VERSIONS = """
          - no_overlap: {name: NAME_overlap, arguments: {key: [id]}, WARN}
          - one_current_per_key: {name: NAME_current, arguments: {key: [id]}, WARN}
          - latest_row_is_current: {name: NAME_latest, arguments: {key: [id]}, WARN}
          - continuous_validity: {name: NAME_gaps, arguments: {key: [id]}, WARN}
          - valid_from_before_valid_to: {name: NAME_ends, WARN}
"""
TESTS = (
    RAW_SOURCE
    + """
    models:
      - name: appended
        data_tests:
          - unique_combination: {name: of_numbers, arguments: {columns: [seq]}, WARN}
        columns:
          - name: name
            data_tests:
              - unique: {name: of_names, WARN}
              - unique: {name: of_some, config: {severity: warn, where: part > 1}}
              - not_null: {name: no_names, WARN}
          - name: value
            data_tests: [{not_negative: {name: below_zero, WARN}}]
          - name: part
            data_tests:
              - accepted_values: {name: parts, arguments: {values: [0, 1, 2, 3]}, WARN}
      - name: singles
        data_tests:
          - unique_combination: {name: within_parts, arguments: {columns: [part, id]}, WARN}
          - unique_combination: {name: with_nulls, arguments: {columns: [name, id]}, WARN}
          - signs_balance: {name: signs, arguments: {change_key: id}, WARN}
        columns:
          - {name: id, data_tests: [{unique: {name: of_singles, WARN}}]}
          - name: value
            data_tests:
              - not_negative: {name: singles_below_zero, WARN}
              - not_negative:
                  {name: by_relation, config: {severity: warn, where: singles.id > 0}}
      - name: chains
        data_tests:"""
    + OF_VERSIONS.replace("NAME", "chains")
    + """
      - name: copies
        data_tests:
          - unique_combination: {name: of_copies, arguments: {columns: [id, copy]}, WARN}
          - unique_combination: {name: of_copied_names, arguments: {columns: [copy, name]}, WARN}
          - sums_match:
              name: sums
              arguments: {expression: value, other: ref('singles'), other_expression: value * 2}
              WARN
          - sums_match:
              name: sums_of_one_table
              arguments:
                expression: value
                other: ref('appended')
                other_expression: if(id < 1000, 2 * value, 0)
              WARN
        columns:
          - {name: value, data_tests: [{not_negative: {name: copies_below_zero, WARN}}]}
      - name: first_of_name
        columns:
          - {name: id, data_tests: [{unique: {name: whole_first, WARN}}]}
      - name: numbered
        columns:
          - name: place
            data_tests:
              - accepted_values: {name: whole_places, arguments: {values: [1]}, WARN}
      - name: of_singles_and_appended
        data_tests:
          - unique_combination: {name: whole_both, arguments: {columns: [id]}, WARN}
      - name: kept
        data_tests:"""
    + OF_VERSIONS.replace("NAME", "kept")
    + """
          - unique_combination:
              {name: of_more_than_the_key, arguments: {columns: [id, part, valid_from]}, WARN}
          - unique_combination: {name: whole_values, arguments: {columns: [value, name]}, WARN}
        columns:
          - {name: value, data_tests: [{not_negative: {name: kept_below_zero, WARN}}]}
    """
).replace("WARN", WARN)
GENERIC = (
    *("continuous_validity", "latest_row_is_current", "no_overlap", "not_negative"),
    *(
        "one_current_per_key",
        "signs_balance",
        "sums_match",
        "unique_combination",
        "valid_from_before_valid_to",
    ),
)


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    followed = REPO / "macros" / "quality" / "followed_versions.sql"
    made = make_project(
        {"dbt_project.yml": PROJECT, "models/_models.yml": TESTS}
        | {f"models/{name}.sql": sql for name, sql in MODELS.items()}
        | generic_tests(*GENERIC)
        | {f"macros/{followed.name}": followed.read_text("utf-8")}
    )
    made.query("create namespace if not exists dw")
    made.query(
        "create table dw.raw (seq bigint, id int, part int, value int, name string, "
        "valid_from int, valid_to int, is_current boolean, kind string, sign int, gone boolean) "
        "using iceberg"
    )
    return made


@dataclass
class Rows:
    """Rows that come in, of which some are wrong, and are taken away again."""

    project: DbtProject
    pick: random.Random
    number: int = 0
    next_id: int = 0
    next_chain: int = 1000
    wrong: list[tuple] = field(default_factory=list)
    right: list[tuple] = field(default_factory=list)

    def row(self, id: int, **values: object) -> tuple:
        """A row that fails no test, but for the values given."""
        self.number += 1
        plain = {"part": self.pick.randrange(4), "value": self.number, "name": f"it's {id}\\"}
        plain |= {"valid_from": 0, "valid_to": None, "is_current": True, "kind": "+I", "sign": 1}
        return (self.number, id, *(plain | values).values(), False)

    def single(self, **values: object) -> tuple:
        self.next_id += 1
        return self.row(self.next_id, **values)

    def chain(self) -> Iterator[tuple]:
        """The versions of a key, in partitions of their own."""
        ends = [*sorted(self.pick.sample(range(1, 20), self.pick.randrange(3))), None]
        self.next_chain += 1
        begin = 0
        for end in ends:
            name = f"{self.next_chain} from {begin}"
            values = {"valid_from": begin, "valid_to": end, "is_current": end is None}
            yield self.row(self.next_chain, name=name, **values)
            begin = end or 0

    def fault(self) -> tuple:
        old = self.pick.choice(self.right)
        of_old = dict(zip(("part", "value", "name", "valid_from"), old[2:6], strict=True))
        chain = {"name": f"wrong {self.number}", "part": self.pick.randrange(4)}
        self.next_chain += 1
        return self.pick.choice(
            (
                lambda: old,
                lambda: self.single(value=-1),
                lambda: self.single(part=9),
                lambda: self.single(name=None),
                lambda: self.single(name=old[4]),
                lambda: self.single(kind="+U"),
                lambda: self.row(old[1], part=(old[2] + 1) % 4, name="again", valid_from=30),
                lambda: self.row(old[1], **of_old),
                lambda: self.row(old[1], **of_old | {"value": -1}),
                lambda: self.row(self.next_chain, valid_to=-1, **chain),
                lambda: self.row(old[1], valid_from=30, valid_to=40, is_current=False, **chain),
            )
        )()

    def write(self, rows: list[tuple]) -> None:
        def text(value: object) -> str:
            if isinstance(value, str):
                return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
            return "null" if value is None else str(value).lower()

        values = ", ".join("(" + ", ".join(map(text, row)) + ")" for row in rows)
        self.project.query(f"insert into dw.raw values {values}")

    def step(self) -> str:
        """Let something happen to the tables; return what."""
        what = self.pick.choice(("rows", "fault", "fault", "fault", "cut", "compact", "spoil"))
        versions = [row for row in self.right if row[1] >= 1000]
        if self.wrong and self.pick.random() < 0.8:
            what = "repair"
            numbers = ", ".join(str(row[0]) for row in self.wrong)
            self.project.query(f"delete from dw.appended where seq in ({numbers})")
            again = []
            for row in self.wrong:
                self.number += 1
                again.append((self.number, *row[1:-1], True))
            self.write(again)
            self.wrong.clear()
            self.project.query("update dw.singles set value = value - 9999 where value > 9999")
        elif what == "cut" and versions:
            cut = self.pick.choice(versions)
            self.project.query(f"delete from dw.appended where seq = {cut[0]}")
            self.wrong += [row for row in versions if row[1] == cut[1]]
            self.right = [row for row in self.right if row not in self.wrong]
        elif what == "spoil":
            spoilt = self.pick.choice([row for row in self.right if row[1] < 1000])
            self.project.query(
                f"update dw.singles set value = value + 9999 where seq = {spoilt[0]}"
            )
            self.wrong.append(self.single())
        elif what == "compact" and self.right:
            self.project.query(
                "call lake.system.rewrite_data_files(table => 'dw.appended', "
                "options => map('rewrite-all', 'true'))"
            )
        else:
            rows = [self.single() for _ in range(self.pick.randrange(1, 4))]
            rows += self.chain()
            self.right += rows
            if what == "fault":
                found = [self.fault() for _ in range(self.pick.randrange(1, 3))]
                self.wrong += found
                rows += found
            self.write(rows)
        return what


def failures(done: Outcome) -> dict[str, int | None]:
    """Of each data test that found something, how many failures."""
    return {
        name: result.failures
        for name, result in done.results.items()
        if result.status in ("warn", "fail", "error")
    }


def check_histories(
    project: DbtProject, seed: int, steps: int, patch: pytest.MonkeyPatch
) -> tuple[Counter[str], Counter[str]]:
    """Play a history; after each step the narrowed tests find what all rows give.

    Returns:
        Data test -> in how many runs it was narrowed, and in how many of these it failed.
    """
    print(f"NARROWED_SEED={seed}")
    queries, seen, found = record_queries(patch), Counter[str](), Counter[str]()
    rows = Rows(project, random.Random(seed))
    rows.right = [rows.single() for _ in range(4)] + list(rows.chain())
    rows.write(rows.right)
    project.run("build")
    for step in range(steps):
        queries.clear()
        what = rows.step()
        built = project.run("build")
        narrowed = queries.narrowed
        expected = failures(project.run("test"))
        assert failures(built) == expected, f"seed {seed}, step {step}: {what}\n{built.log}"
        assert (f"{len(narrowed)}{NARROWED}" in built.log) == bool(narrowed)
        seen.update(narrowed)
        found.update(narrowed & expected.keys())
    return seen, found


@pytest.mark.in_turn
def test_a_narrowed_test_finds_what_all_rows_give(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, _ = check_histories(project, SEED, 3, monkeypatch)
    assert seen


@pytest.mark.soak
def test_long_histories_of_faults_and_repairs(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, found = check_histories(project, SEED + 1, STEPS, monkeypatch)
    print({name: (count, found[name]) for name, count in sorted(seen.items())})
    tests = re.findall(r"name: (\w+)(?:, | *\n *)(?:arguments|config)", TESTS)
    # a key is there once, and a view has the sum of its table
    never = {"of_more_than_the_key", "sums_of_one_table"}
    assert set(found) == {name for name in tests if not name.startswith("whole_")} - never
    assert never <= set(seen)


@pytest.mark.in_turn
def test_a_narrowed_test_opens_only_files_that_may_hold_its_keys(
    make_project: Callable[..., DbtProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = """
    models:
      - name: changes
        columns:
          - {name: number, data_tests: [{unique: {name: of_numbers}}]}
          - {name: place, data_tests: [{unique: {name: of_places}}]}
          - {name: kind, data_tests: [{accepted_values: {name: kinds, arguments: {values: [U]}}}]}
    """
    model = """
        {{ config(materialized='incremental') }}
        select *, 'U' as kind from {{ new_rows(source('raw', 'raw')) }}
    """
    project = make_project(
        {
            "dbt_project.yml": PROJECT,
            "models/_models.yml": RAW_SOURCE + tests,
            "models/changes.sql": model,
        }
    )
    project.query("create namespace if not exists dw")
    project.query("create table dw.raw (number bigint, place string) using iceberg")
    queries = record_queries(monkeypatch)
    for day in range(6):
        project.query(
            f"insert into dw.raw select {day} * 100 + id, 'mysql-bin.00000{day}:' || id "
            "from range(9)"
        )
        project.run("build")
    session = own_session(project.credentials()).session
    opened = {name: opened_files(ran(session, sql)[1]) for name, (_, sql) in queries.items()}
    # beside the appended rows, whose reads Iceberg doesn't count
    assert opened == {"of_numbers": 1, "of_places": 1, "kinds": 0}
    assert opened_files(ran(session, "select distinct kind from dw.changes")[1]) == 6


@pytest.fixture(scope="module")
def stored(make_project: Callable[..., DbtProject]) -> tuple[DbtProject, int]:
    """A project with a table dw.t, and the table's snapshot."""
    project = make_project({})
    project.query("create namespace if not exists dw")
    project.query("create table dw.t (id int, value int, more int) using iceberg")
    project.query("insert into dw.t values (1, 2, 3)")
    return project, project.column("select snapshot_id from dw.t.snapshots")[0]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from T where id > 0", True),
        ("select id, copy from T lateral view explode(array(1, 2)) copies as copy", True),
        ("with a as (select id from T), b as (select id from a) select * from b", True),
        ("select id from T union all select value from T", True),
        ("select id, sum(value) from T group by id", False),
        ("select distinct id from T", False),
        ("select * from T limit 1", False),
        ("select *, row_number() over (order by id) as place from T", False),
        ("select one.id from T as one inner join T as other on one.id = other.id", False),
        ("select * from T as a where exists (select 1 from T as b where a.id = b.value)", False),
        ("select *, (select value from T) as first from T", False),
        ("select * from T where id in (select value from T)", False),
        ("select *, rand() as chance from T", False),
        ("select id from T union all select id from dw.t", False),
        ("select id from T union all select 1", False),
    ],
)
def test_a_view_is_narrowed_where_its_rows_are_made_of_single_rows(
    stored: tuple[DbtProject, int], sql: str, expected: bool
) -> None:
    project, snapshot = stored
    session = own_session(project.credentials()).session
    pinned = sql.replace(" T", f" dw.t version as of {snapshot}")
    read = f".dw.t VERSION AS OF '{snapshot}'"
    assert touched_rows.is_row_wise(session, pinned, read) is expected


def test_columns_that_changed_places_are_others(stored: tuple[DbtProject, int]) -> None:
    project, snapshot = stored

    def are_same() -> bool:
        session = own_session(project.credentials()).session
        return has_same_columns(loaded(session, project.credentials().catalog, "dw.t"), snapshot)

    assert are_same()
    project.query("alter table dw.t rename column value to kept")
    project.query("alter table dw.t rename column more to value")
    project.query("alter table dw.t rename column kept to more")
    assert not are_same()
    project.query("alter table dw.t rename column value to kept")
    project.query("alter table dw.t rename column more to value")
    project.query("alter table dw.t rename column kept to more")
    assert are_same()
    project.query("alter table dw.t add column later int")
    assert not are_same()
