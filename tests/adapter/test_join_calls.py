"""Calls of join macros: the refusals of a wrong call, pairs that a model leaves out."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace

from dbt.adapters.sparksession.declared.joins import Join, Side

from tests.support.join_models import FOLD, MACROS

# ---- refusals of wrong declarations and of skew
# -------------------------------------------

KEY_OF_PAIRS = "['id', 'rid']"
LEFT = "{'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id', 'k', 'v']}"
RIGHT = "{'relation': source('src', 'others'), 'key': 'rid', 'columns': ['rid']}"
WRONG = {
    "everything": (
        "interval_join(left={'relation': ref('fine'), 'columns': ['id'], 'tme': 'at'}, "
        "right={'relation': 'x', 'key': 'rid', 'columns': ['id', 'rid'], 'time': 'at'}, on={}, "
        "lower='5 months', upper='x', kind='outer')",
        [
            "left.tme is an unknown setting; expected one of relation, key, columns, time",
            "left.key must name the columns that distinguish its rows, got None",
            "left.time must name a column, got None",
            "right.relation must be ref(..) or source(..), got 'x'",
            "on must map columns of the left side to equal columns of the right side, got {}",
            "kind must be one of inner, left, got 'outer'",
            "both sides have a column id; name the right one otherwise",
            "lower must be a whole number of seconds, minutes, hours, days or weeks, got "
            "'5 months'",
            "upper must be a whole number",
            "Example: interval_join(left={'relation': ref('order')",
        ],
    ),
    "no_column": (
        "many_to_many_join(left={LEFT}, right={RIGHT}, on={'key': 'k'})",
        ["many_to_many_join: left (src.facts): there is no column key; it has id, k, at, v."],
    ),
    "no_time": (
        "history_join(left=dict({LEFT}, time='v'), right=dict({RIGHT}, time='at'), "
        "on={'k': 'k'}, expiry='3 days')",
        ["left (src.facts): time column v is string, must be a timestamp or a date."],
    ),
    "a_map": (
        "many_to_many_join(left={LEFT}, right=dict({RIGHT}, relation=source('src', 'maps'), "
        "columns=['rid', 'm']), on={'k': 'k'})",
        [
            "right (src.maps): column m is map<string,string>, of which no two can be compared; "
            "give its model a column of to_json(..)"
        ],
    ),
    "other_type": (
        "many_to_many_join(left={LEFT}, right={RIGHT}, on={'v': 'k'})",
        ["on: v of the left side is string, k of the right side int; cast one of them"],
    ),
    "a_stream": (
        "many_to_many_join(left={LEFT}, right=dict({RIGHT}, relation=source('src', 'stream')), "
        "on={'k': 'k'})",
        [
            "right (src.stream): it is a stream of retract rows: sequence must name the columns "
            "that order the changes of a key, in total; or join the folded model that keeps its "
            "current rows."
        ],
    ),
    "no_stream": (
        "many_to_many_join(left={LEFT}, right=dict({RIGHT}, sequence='k'), on={'k': 'k'})",
        [
            "right (src.others): sequence is for a stream of retract rows, which has a column "
            "row_kind; it has rid, k"
        ],
    ),
    "a_view": (
        "many_to_many_join(left=dict({LEFT}, relation=ref('counted')), right={RIGHT}, "
        "on={'k': 'k'})",
        ["dw.counted is a view whose rows don't each come from one row of its input"],
    ),
    "no_table": (
        "many_to_many_join(left={LEFT}, right=dict({RIGHT}, relation=source('src', 'none')), "
        "on={'k': 'k'})",
        ["right (src.none): there is no such table or view; build it first."],
    ),
    "other_key": (
        "many_to_many_join(left=dict({LEFT}, key=['k', 'id']), right={RIGHT}, on={'k': 'k'})",
        [
            "the model's config must be config(materialized='folded', unique_key=['k', 'id', "
            "'rid'], fold={'sequence': ['commit_number'], 'row_kind': 'row_kind'})."
        ],
    ),
}


UNIT_TEST = """
    unit_tests:
      - name: rows_of_one_key_are_pairs
        model: fine
        given:
          - input: source('src', 'facts')
            rows: [{id: 1, k: 7, v: a}, {id: 2, k: 7, v: b}]
          - input: source('src', 'others')
            rows: [{rid: 5, k: 7, w: a}, {rid: 6, k: null, w: a}]
        expect:
          rows: [{id: 1, rid: 5, row_kind: +I}]
"""


def small_model(call: str) -> str:
    call = call.replace("{LEFT}", LEFT).replace("{RIGHT}", RIGHT)
    return (
        f"{{{{ config(materialized='folded', unique_key={KEY_OF_PAIRS}, fold={FOLD}) }}}}\n"
        f"with joined as ({{{{ {call} }}}}) select * from joined"
    )


def test_what_is_wrong_is_said_before_anything_is_written(make_project):
    tables = ", ".join(
        f"{{name: {item}}}" for item in ("facts", "others", "stream", "maps", "none")
    )
    project = make_project(
        MACROS
        | {
            "models/sources.yml": f"sources: [{{name: src, tables: [{tables}]}}]",
            "models/fine.sql": small_model(
                "many_to_many_join(left={LEFT}, right={RIGHT}, on={'k': 'k', 'v': 'w'})"
            ),
            "models/itself.sql": small_model(
                "many_to_many_join(left={LEFT}, right={'relation': source('src', 'facts'), 'key': "
                "'id', 'columns': {'id': 'rid'}}, on={'v': 'v'}, "
                "condition='left_row.id <> right_row.id')"
            ),
            "models/unit_tests.yml": UNIT_TEST,
            "models/counted.sql": "select k, k as id, v from {{ source('src', 'facts') }}",
        }
        | {f"models/{name}_join.sql": small_model(call) for name, (call, _) in WRONG.items()}
    )
    project.query("create namespace if not exists src")
    for name, columns in {
        "facts": "id int, k int, at timestamp, v string",
        "others": "rid int, k int, at timestamp, w string",
        "stream": "rid int, k int, at timestamp, row_kind string",
        "maps": "rid int, k int, m map<string,string>",
    }.items():
        project.query(f"create or replace table src.{name} ({columns}) using iceberg")
    odd = r"a\'b\n{{ 1 }}"  # as SQL writes it
    project.query(f"insert into src.facts select id, id % 2, null, '{odd}' from range(60) as t(id)")
    project.query(
        f"insert into src.others select id, id % 4, null, '{odd}' from range(40) as t(id)"
    )

    outcome = project.run("run", vars={"join_rows_per_key": 25}, expect_ok=False)

    statuses = outcome.statuses()
    assert {name for name, status in statuses.items() if status == "success"} == {
        "fine",
        "itself",
        "counted",
    }
    assert project.column("select count(*) from dw.itself") == [60 * 59]
    for name, (_, parts) in WRONG.items():
        message = outcome.results[f"{name}_join"].message
        for part in parts:
            assert part in message, f"{name}: {message}"
        assert project.query(f"show tables in dw like '{name}_join*'") == []
    log = " ".join(outcome.log.split())  # dbt breaks long lines
    for key in (0, 1):
        reported = f'key {{"k":{key},"v":"a\'b\\n{{{{ 1 }}}}"}}: 30 left rows x 10 right rows'
        assert reported in log, log

    project.run("test", "-s", "fine")

    # later the keys of what a run touches alone
    project.query("insert into src.facts values (100, 3, null, 'z'), (101, 0, null, 'z')")
    project.query("insert into src.others select id, 3, null, 'z' from range(100, 140) as t(id)")
    shown = project.run("show", "-s", "fine", "--limit", "-1").raw.results[0].agate_table
    assert Counter(shown.columns["row_kind"]) == {"+I": 40}
    outcome = project.run("run", "-s", "fine", "itself", vars={"join_rows_per_key": 25})
    assert project.column("select count(*) from dw.itself") == [60 * 59 + 2]
    (compiled,) = (project.target / "compiled").rglob("fine.sql")
    assert "where (id = 100 or id = 101)" in compiled.read_text(encoding="utf-8")
    assert 'key {"k":3,"v":"z"}: 1 left rows x 40 right rows' in " ".join(outcome.log.split())
    assert '"k":0' not in outcome.log
    numbers = project.query(
        "select commit_number, count(*) as n from dw.fine group by 1 order by 1"
    )
    assert [tuple(number.values()) for number in numbers] == [(1, 600), (2, 40)]

    changed = "many_to_many_join(left={LEFT}, right={RIGHT}, on={'k': 'k'})"
    project.write({"models/fine.sql": small_model(changed)})
    message = project.run("run", "-s", "fine", expect_ok=False).results["fine"].message
    assert "what is stored was joined otherwise" in message
    assert "--full-refresh" in message
    project.run("run", "-s", "fine", "--full-refresh")
    assert project.column("select distinct commit_number from dw.fine") == [3]

    project.run("compile", "-s", "fine", "--target", "ci")  # asks no table
    text = compiled.read_text(encoding="utf-8")
    assert "1L as commit_number" in text
    assert "inner join src.others as right_row" in text

    # a commit that brings no row is taken note of, and costs no look at either side
    project.query("insert into src.facts select * from src.facts where false")
    pairs = project.column("select count(*) from dw.fine")
    ran = project.run("run", "--select", "fine").raw.results[0].node.compiled_code
    assert "where false" in ran
    (head,) = project.column("select snapshot_id from src.facts.refs where name = 'main'")
    assert project.summary("dw.fine__runs")["dbt.input.src.facts"] == str(head)
    assert project.column("select count(*) from dw.fine") == pairs
    project.query(f"insert into src.facts values (99, 1, null, '{odd}')")
    project.run("run", "--select", "fine")
    assert project.column("select count(*) from dw.fine") == [pairs[0] + 10]


def test_a_column_that_comes_from_elsewhere_asks_for_a_full_refresh():
    relation = SimpleNamespace(name_only=SimpleNamespace(render=lambda: "dw.r"))

    def join(columns: dict[str, str], kind: str = "left") -> Join:
        left = Side("left", relation, ["id"], {"id": "id"}, {})
        return Join("j", left, Side("right", relation, ["rid"], columns, {}), {"k": "k"}, "", kind)

    stored = join({"rid": "rid", "amount": "x"}).definition
    assert not join({"rid": "rid", "amount": "x"}).differs_from(stored)
    assert join({"rid": "rid", "price": "x"}).differs_from(stored)
    assert join({"rid": "rid", "amount": "x"}, "inner").differs_from(stored)
    assert not join({"rid": "rid", "amount": "x", "price": "y"}).differs_from(stored)
    assert not join({"rid": "rid"}).differs_from(stored)
    before = {name: value for name, value in stored.items() if name != "columns"}
    assert not join({"rid": "rid", "amount": "x"}).differs_from(before)


PRICED = """
    {{ config(materialized='folded', unique_key=['id', 'rid'], fold={
        'sequence': 'commit_number', 'row_kind': 'row_kind'}) }}
    {{ temporal_join(
        left={'relation': ref('facts'), 'key': 'id', 'columns': ['id', 'at'], 'time': 'at'},
        right={'relation': ref('prices'), 'key': 'rid', 'columns': ['rid', 'price'%s]},
        on={'k': 'k'},
        kind='left',
    ) }}
"""


def test_a_pair_that_the_model_leaves_out_from_now_on_goes(make_project):
    models = {
        "models/sources.yml": "sources: [{name: src, tables: [{name: facts}, {name: others}]}]",
        "models/paid.sql": """
            {{ config(materialized='folded', unique_key=['id', 'rid'], fold={
                'sequence': 'commit_number', 'row_kind': 'row_kind'}) }}
            with joined as ({{ latest_join(
                left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id']},
                right={'relation': source('src', 'others'), 'key': 'rid',
                    'columns': ['rid', 'amount']},
                on={'id': 'id'},
            ) }})
            select * from joined where amount > 0
        """,
    }
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    project.query("create or replace table src.facts using iceberg as select 1 as id")
    project.query(
        "create or replace table src.others using iceberg as select * from values "
        "(1, 1, 10), (2, 1, 20), (3, 1, 0) as t(rid, id, amount)"
    )
    project.run("run", "-s", "paid")
    project.query("update src.others set amount = case rid when 1 then 0 else 30 end")
    project.run("run", "-s", "paid")
    rows = project.query("select rid, amount from dw.paid order by rid")
    assert [tuple(row.values()) for row in rows] == [(2, 30), (3, 30)]


def test_a_version_that_ends_touches_the_facts_behind_its_end_alone(make_project):
    """Unless its end is reported: then all its facts have another version."""
    folded = (
        "{{ config(materialized='folded', unique_key='%s', fold={'sequence': 'n'}) }} "
        "select * from {{ new_rows(source('src', '%s')) }}"
    )
    models = {
        "models/sources.yml": "sources: [{name: src, tables: [{name: facts}, {name: prices}]}]",
        "models/facts.sql": folded % ("id", "facts"),
        "models/prices.sql": folded % ("rid", "prices"),
        "models/priced.sql": PRICED % "",
        "models/ended.sql": PRICED % ", 'valid_to'",
    }
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    project.query(
        "create table src.facts using iceberg as select id, 0 as n, 1 as k, "
        "timestamp'2026-01-01' + make_dt_interval(cast(id as int)) as at from range(100)"
    )
    project.query(
        "create table src.prices using iceberg as select 1 as rid, 0 as n, 1 as k, 5 as price, "
        "timestamp'2025-01-01' as valid_from, cast(null as timestamp) as valid_to"
    )
    project.run("run")
    new = "timestamp'2026-01-01' + interval 95 days"
    project.query(f"insert into src.prices select 1, 1, 1, 5, timestamp'2025-01-01', {new}")
    project.query(f"insert into src.prices select 2, 1, 1, 7, {new}, null")

    project.run("run")

    by_price = "select price, min(id) as low, max(id) as high, count(*) as n from dw.{} group by 1"
    wanted = [(5, 0, 94, 95), (7, 95, 99, 5)]
    touched = {"priced": 95, "ended": 0}
    for name, first in touched.items():
        rows = project.query(by_price.format(name) + " order by 1")
        assert [tuple(row.values()) for row in rows] == wanted
        (compiled,) = (project.target / "compiled").rglob(f"{name}.sql")
        ids = re.findall(r"\bid`? (?:=|between) (\d+)", compiled.read_text(encoding="utf-8"))
        assert min(map(int, ids)) == first, name

    # and back: what had ended goes on
    project.query("insert into src.prices select 1, 2, 1, 5, timestamp'2025-01-01', null")
    project.query(f"insert into src.prices select 2, 2, 1, 7, {new}, {new}")
    project.run("run")
    for name in touched:
        rows = project.query(by_price.format(name))
        assert [tuple(row.values()) for row in rows] == [(5, 0, 99, 100)]
