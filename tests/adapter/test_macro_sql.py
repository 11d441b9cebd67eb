"""The SQL that the project's macros write, word for word."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import REPO, DbtProject

MACRO = "macros/changelog/retract_rows.sql"
CALL = "{{ retract_rows(from_cte='orders', image_columns=%s, change_columns=['cut_date', 'op']) }}"
EXPECTED = """
    select
        case when sign = 1 then orders.order_id else orders.before.order_id end as order_id,
        case when sign = 1 then orders.amount else orders.before.amount end as amount,
        case
            when orders.op_type = 'insert' then '+I'
            when orders.op_type = 'delete' then '-D'
            when sign = 1 then '+U'
            else '-U'
        end as row_kind,
        sign,
        orders.cut_date,
        orders.op
    from orders
    lateral view
        explode(
            case orders.op_type
                when 'insert' then array(1)
                when 'update' then array(-1, 1)
                when 'delete' then array(-1)
            end
        ) signs as sign
"""


def with_call(make_project: Callable[..., DbtProject], image_columns: str) -> DbtProject:
    files = {MACRO: (REPO / MACRO).read_text(encoding="utf-8")}
    return make_project(files | {"models/expanded.sql": CALL % image_columns})


def test_retract_rows(make_project: Callable[..., DbtProject]) -> None:
    project = with_call(make_project, "['order_id', 'amount']")

    project.run("compile")

    (path,) = (project.target / "compiled").rglob("expanded.sql")
    assert path.read_text(encoding="utf-8").split() == EXPECTED.split()


def test_retract_rows_names_what_is_wrong_with_its_arguments(
    make_project: Callable[..., DbtProject],
) -> None:
    project = with_call(make_project, "'order_id'")

    outcome = project.run("compile", expect_ok=False)

    output = f"{outcome.log} {outcome.exception}"
    assert "image_columns must be a list of column names, got order_id" in output
    assert "Example: retract_rows(" in output


UPSERTS = """
    with orders as (
        select op_type, id, v, named_struct('id', old_id, 'v', old_v) as before
        from values
            ('insert', 1, 'a', null, null), ('update', 2, 'b', 2, 'a'), ('update', 3, 'b', 4, 'a'),
            ('update', null, 'b', null, 'a'), ('update', null, 'b', 5, 'a'),
            ('delete', 6, null, 6, 'a')
        as t(op_type, id, v, old_id, old_v)
    )
    {{ retract_rows('orders', ['id', 'v'], ['op_type'], upsert_by=['id']) }}
"""


def test_an_update_that_keeps_its_key_gives_its_new_row_alone(
    make_project: Callable[..., DbtProject],
) -> None:
    """A null is a key like another."""
    project = make_project({MACRO: (REPO / MACRO).read_text(encoding="utf-8")})
    compiled = project.run("compile", "--inline", UPSERTS).raw.results[0].node.compiled_code
    found = {(row["id"], row["v"], row["row_kind"]) for row in project.query(compiled)}
    assert found == {
        *((1, "a", "+I"), (2, "b", "+U"), (4, "a", "-U"), (3, "b", "+U"), (None, "b", "+U")),
        *((5, "a", "-U"), (6, "a", "-D")),
    }
