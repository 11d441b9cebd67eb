"""Small answers about the log: whether it has come as far as a source, what nobody declares."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable

import pytest

from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_warehouse import PROJECT, RAW_SOURCE, make_raw

FILES = {
    f"macros/{path.relative_to(REPO / 'macros')}": path.read_text(encoding="utf-8")
    for folder in ("chain", "quality")
    for path in sorted((REPO / "macros" / folder).glob("*.sql"))
} | {
    "models/at_source.sql": """
        {{ config(
            materialized='table', meta={'source_count': {'topic': ['maxwell*', 'full_load.*']}}
        ) }}
        select 1 as n
    """,
    "models/log_rows.sql": """
        {{ config(materialized='table') }}
        select * from values
            ('b1', 'a', 0, 19999L), ('b1', 'a', 0, 20000L), ('b1', 'a', 0, 39999L),
            ('b1', 'a', 0, 40000L), ('b1', 'a', 1, 20001L), ('b1', 'b', 0, 20002L),
            ('b2', 'a', 0, 20003L)
        as t(batch_id, topic, partition_number, message_offset)
    """,
    "models/ods_shop__a.sql": """
        {{ config(materialized='table', meta={'source': {
            'database': 'shop', 'table': 'a', 'format': 'debezium', 'columns': {'id': 'int'}
        }}) }}
        select 1 as id
    """,
}
ASKED = """
    with log as (
        select * from values %s as t(topic, binlog_file_number, binlog_position)
        where topic <> 'nothing'
    )
    {{ source_is_reached(ref('at_source'), 'log') }}
"""


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    made = make_project(FILES)
    made.run("run")  # its commit names no place of the binlog: any is as far
    return made


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("('nothing', 1L, 4L)", False),
        ("('maxwell_2', 1L, 4L)", True),
        ("('maxwell_2', 1L, cast(null as bigint))", False),
        ("('mongo', 1L, 4L)", False),
        ("('mongo', 1L, 4L), ('full_load.shop', 1L, 4L)", True),
    ],
)
def test_other_topics_and_an_empty_log_are_not_there(
    project: DbtProject, rows: str, expected: bool
) -> None:
    compiled = project.run("compile", "--inline", ASKED % rows).raw.results[0].node.compiled_code
    assert project.column(compiled) == [expected]


UNDECLARED = """
    with log as (
        select
            'shop' as topic, 'debezium' as format, 'shop' as database_name, 'a' as table_name,
            'insert' as op, timestamp '2026-03-02 00:00:00' as event_time, payload,
            cast(null as string) as reject_reason
        from values
            ('{"before":null,"after":{"id":1,"of_insert":1}}'),
            ('{"before":{"id":1,"of_delete":1},"after":null}'),
            ('{"payload":{"before":null,"after":{"ID":1,"of_wrapped_insert":1}}}'),
            ('{"payload":{"before":{"id":1,"of_wrapped_delete":1},"after":null}}')
        as messages(payload)
    )
    select column_name from ({{ undeclared_columns('log') }}) order by column_name
"""


def test_columns_are_looked_for_wherever_a_message_has_its_row(project: DbtProject) -> None:
    compiled = project.run("compile", "--inline", UNDECLARED).raw.results[0].node.compiled_code
    assert project.column(compiled) == [
        *("of_delete", "of_insert", "of_wrapped_delete", "of_wrapped_insert")
    ]


OF_BLOCK = """
    {% set blocks = {
        'all': false,
        'near': 'true',
        'rows': "(select 'b1' as batch_id, 'a' as topic, 0 as partition_number, "
            ~ "1L as offset_block)",
    } %}
    {% set columns = ['message_offset', 'batch_id', 'topic', 'partition_number'] %}
    {{ rows_of_blocks([ref('log_rows')], columns, blocks) }}
"""


def test_rows_of_other_blocks_partitions_topics_and_batches_are_left_out(
    project: DbtProject,
) -> None:
    compiled = project.run("compile", "--inline", OF_BLOCK).raw.results[0].node.compiled_code
    assert sorted(project.column(compiled)) == [20_000, 39_999]


@pytest.mark.parametrize(
    "pattern",
    ["shop.[ab]", "shop.[!ab]", "shop.[a-b]*", "sh?p.[b]", "shop.[", "s[h*", "shop.?", "%op!_*"],
)
def test_topics_fit_a_pattern_as_the_typed_tables_read_it(
    project: DbtProject, pattern: str
) -> None:
    topics = ["shop.a", "shop.b", "shop.c", "shop.ab", "shop.[", "shop_a", "s[hop", "%op!_a"]
    rows = ", ".join(f"('{topic}')" for topic in topics)
    asked = f"select topic from values {rows} as t(topic) where {{{{ _is_like('{pattern}') }}}}"
    compiled = project.run("compile", "--inline", asked).raw.results[0].node.compiled_code
    assert sorted(project.column(compiled)) == sorted(fnmatch.filter(topics, pattern))


TABLES_OF_DAYS = ("dws_trade__user_coupon_1d", "dws_trade__user_status_1d")
OF_DAYS = """
    {{ config(
        materialized='incremental', incremental_strategy='replace_partitions',
        partition_by='cut_date', tblproperties={'write.summary.partition-limit': '100'},
    ) }}
    select cut_date, count(*) as n
    from {{ changed_partitions(ref('ods_shop__a'), by='cut_date') }}
    group by cut_date
"""
TYPED = """
    {{ config(
        materialized='incremental', partition_by='cut_date',
        tblproperties={'write.summary.partition-limit': '100'},
    ) }}
    select id, date_add(date'2026-03-01', cast(id as int)) as cut_date
    from {{ new_rows(source('raw', 'raw')) }}
"""
OF_META = """
    models:
      - {name: meta_compensation, config: {meta: {published: false}}}
      - {name: meta_late_data, config: {meta: {published: false}}}
"""


@pytest.mark.in_turn
def test_what_a_table_went_back_behind_is_neither_done_nor_late(
    make_project: Callable[..., DbtProject],
) -> None:
    of_meta = {
        f"models/{name}.sql": (REPO / f"models/meta/{name}.sql").read_text(encoding="utf-8")
        for name in ("meta_compensation", "meta_late_data")
    }
    of_meta["macros/quality/typed_models.sql"] = (
        "{% macro typed_models() %}{% do return([ref('ods_shop__a')]) %}{% endmacro %}"
    )
    settings = PROJECT + "    vars: {business_zone: UTC, open_window_days: 3}\n"
    project = make_project(
        {path: text for path, text in FILES.items() if path.startswith("macros")}
        | of_meta
        | {f"models/{name}.sql": OF_DAYS for name in TABLES_OF_DAYS}
        | {"models/ods_shop__a.sql": TYPED, "models/_models.yml": RAW_SOURCE + OF_META}
        | {"dbt_project.yml": settings}
    )
    make_raw(project)
    project.query("insert into dw.raw values (0), (1)")
    project.run("build")
    days = {"compensate_days": ["2026-03-01"], "compensate_request": "some days"}
    project.run("run", "--select", *TABLES_OF_DAYS, vars=days)
    done = "select table_name, cast(cut_date as string) as day from dw.meta_compensation"
    assert len(project.query(done)) == 2
    project.query("insert into dw.raw values (2), (3), (9)")
    project.run("build")
    late = "select cut_date, change_count from dw.meta_late_data"
    assert project.query(late) == []
    project.run("run-operation", "roll_back", "--args", "{version: 1}")
    project.run("build")
    assert project.query(done) == []
    assert project.query(late) == []
    project.query("insert into dw.raw values (4)")
    project.run("build")
    (found,) = project.query(late)
    assert (str(found["cut_date"]), found["change_count"]) == ("2026-03-05", 1)
