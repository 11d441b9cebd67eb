"""Edits of the project's files that a user makes and takes back."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.operators.small_log import ORDERS, text_of
from tests.operators.user import User

ODS_YAML = "models/ods/_ods__models.yml"
Edit = Callable[[User, Random], dict[str, str | None]]  # file -> its new text


def replaced(name: str, old: str, new: str) -> Edit:
    """The edit that takes one text for another wherever it stands in a file."""

    def edit(user: User, _: Random) -> dict[str, str | None]:
        if not (user.project.root / name).is_file():  # another edit took it away
            return {}
        text = text_of(user.project, name)
        return {name: text.replace(old, new)} if old in text else {}

    return edit


def added(name: str, more: str) -> Edit:
    def edit(user: User, _: Random) -> dict[str, str | None]:
        if not (user.project.root / name).is_file():
            return {}
        return {name: text_of(user.project, name) + more}

    return edit


def gone(name: str) -> Edit:
    def edit(user: User, _: Random) -> dict[str, str | None]:
        return {name: None} if (user.project.root / name).is_file() else {}

    return edit


def new(name: str, text: str) -> Edit:
    return lambda user, _: {} if (user.project.root / name).is_file() else {name: text}


def renamed(old: str, name: str) -> Edit:
    """A model gets another name, which all others know."""

    def edit(user: User, _: Random) -> dict[str, str | None]:
        root, found = user.project.root, {}
        for path in (root / "models").rglob("*"):
            if not path.is_file():
                continue
            place, text = str(path.relative_to(root)), path.read_text("utf-8")
            for quote in "'\"":
                text = text.replace(f"{quote}{old}{quote}", f"{quote}{name}{quote}")
            text = text.replace(f"name: {old}\n", f"name: {name}\n")
            if path.stem == old:
                found[place] = None
                found[place.replace(old, name)] = text
            elif text != path.read_text("utf-8"):
                found[place] = text
        return found if any(text is None for text in found.values()) else {}

    return edit


def _project_renamed(user: User, _: Random) -> dict[str, str | None]:
    text = text_of(user.project, "dbt_project.yml")
    if "name: binlog_warehouse" not in text:
        return {}
    text = text.replace("name: binlog_warehouse", "name: warehouse")
    return {"dbt_project.yml": text.replace("\n  binlog_warehouse:", "\n  warehouse:")}


PROFILE = "profiles/profiles.yml"
SETTING = '        spark.sql.codegen.hugeMethodLimit: "8000"\n'
DWD, DWS = "models/dwd/", "models/dws/"
# no command should take them
MISTAKES: dict[str, Edit] = {
    "half a statement": added(f"{DWS}order_count.sql", "\nwhere"),
    "half a tag": added(f"{DWD}order_changelog.sql", "\n{{ ref("),
    "a model that isn't there": added(f"{DWS}label_count.sql", "\n-- {{ ref('nowhere') }}"),
    "a macro that isn't there": added(f"{DWS}label_count.sql", "\n{{ no_such_macro() }}"),
    "a column that isn't there": replaced(
        f"{DWD}order_newest.sql", "order_id, user_id, amount", "order_id, usr_id as user_id, amount"
    ),
    "invalid YAML": added("models/_models.yml", "\n  - name: [\n"),
    "a model that raises": replaced(f"{DWS}user_count.py", "days = ", "days = 1 / 0  #"),
    "a test that fails": replaced(
        "models/_models.yml",
        "data_tests: [unique]",
        "data_tests: [unique, {accepted_values: {arguments: {values: [7]}}}]",
    ),
    "a type that isn't there": replaced(ODS_YAML, "varchar(30)", "varchr(30)"),
    "a key of a declaration that isn't there": replaced(ODS_YAML, "primary_key:", "primry_key:"),
    "a strategy that isn't there": replaced(
        f"{DWD}order_flow.sql", "append_new_rows", "append_some_rows"
    ),
}
EDITS: dict[str, Edit] = MISTAKES | {
    # that change nothing
    "a remark in a model": added(f"{DWD}order_newest.sql", "\n-- a remark\n"),
    "a remark in a count": added(f"{DWS}order_count.sql", "\n-- a remark\n"),
    "a description": replaced(
        "models/_models.yml", "name: order_newest\n", "name: order_newest\n    description: x\n"
    ),
    "another number of partitions": replaced(
        PROFILE, "env_var('SPARK_SHUFFLE_PARTITIONS', '8')", "3"
    ),
    "a selector": new(
        "selectors.yml", "selectors: [{name: only, default: true, definition: order_newest+}]"
    ),
    # that say something else
    "another way to calculate": replaced(
        PROFILE, SETTING, f'        spark.sql.ansi.enabled: "false"\n{SETTING}'
    ),
    "another count": replaced(
        f"{DWS}order_count.sql", "{{ daily_cut", "-- {{ ref('statuses') }}\n{{ daily_cut"
    ),
    "fewer rows counted": replaced(
        f"{DWS}order_count.sql", "by='cut_date') }}", "by='cut_date') }} where amount > 10"
    ),
    "another measure": replaced(
        "macros/business/counts/user_status.sql",
        "'order_count': {'aggregate': 'count'},",
        "'order_count': {'aggregate': 'count'}, 'most': {'aggregate': 'max', 'column': 'amount'},",
    ),
    "fewer rows in a table": replaced(
        f"{DWS}label_count.sql", "group by", "where amount > 10 group by"
    ),
    "a filter of a view": replaced(
        f"{DWD}order_changelog.sql", "reject_reason is null", "reject_reason is null and false"
    ),
    "a filter of a fold": replaced(
        f"{DWD}order_newest.sql",
        "('order_changelog')) }}",
        "('order_changelog')) }} where amount > 9",
    ),
    "another stream": replaced(f"{DWD}order_flow.sql", "sign from", "- sign as sign from"),
    "other buckets": replaced(
        f"{DWD}order_newest.sql", "'row_kind': ", "'buckets': 2, 'row_kind': "
    ),
    "other tiers": replaced(
        f"{DWD}order_newest.sql", "'row_kind': ", "'tier_runs': 2, 'row_kind': "
    ),
    "a condition of what is shown": replaced(
        f"{DWD}order_newest.sql", "'row_kind': ", "'keep_when': 'amount > 10', 'row_kind': "
    ),
    "another key": replaced(
        f"{DWD}order_newest.sql", "unique_key='order_id'", "unique_key=['order_id', 'user_id']"
    ),
    "other tracked columns": replaced(
        f"{DWD}price_zip.sql", "['price']", "['price', 'product_id']"
    ),
    "an inner join": replaced(f"{DWD}order_status.sql", "'left',\n) }}", "'inner',\n) }}"),
    "another partition": replaced(
        f"{DWS}order_count.sql", "partition_by='cut_date'", "partition_by='user_id'"
    ),
    "a view of a table": replaced(f"{DWS}label_count.sql", "='table'", "='view'"),
    "a table of a view": replaced(f"{DWS}order_count_td.sql", "='view'", "='table'"),
    "a table of a folded model": replaced(
        f"{DWD}order_newest.sql", "materialized='folded'", "materialized='table'"
    ),
    "a table of an incremental model": replaced(
        f"{DWD}order_flow.sql", "materialized='incremental'", "materialized='table'"
    ),
    "a view of an incremental model": replaced(
        f"{DWD}order_flow.sql", "materialized='incremental'", "materialized='view'"
    ),
    "a wider type": replaced(ODS_YAML, "varchar(30)", "varchar(60)"),
    "a larger number": replaced(ODS_YAML, "decimal(12,2)", "decimal(14,3)"),
    "another type": replaced(ODS_YAML, "varchar(30)", "bigint"),
    "one column more": replaced(
        ODS_YAML, "biz_status: varchar(30)", "biz_status: varchar(30)\n          comment: text"
    ),
    "one column less": replaced(ODS_YAML, "          amount: decimal(12,2)\n", ""),
    "no cut column": replaced(ODS_YAML, "        cut_column: update_time\n", ""),
    "a table without a key": replaced(
        ODS_YAML, "primary_key:\n        - order_id", "primary_key: []"
    ),
    "another table": replaced(ODS_YAML, "table: order_info", "table: order_address"),
    "another topic": replaced("dbt_project.yml", "maxwell*", "mxwell*"),
    "another format": replaced(ODS_YAML, "{{ var(''shop_format'') }}", "canal"),
    "fewer columns of a snapshot": replaced(
        "snapshots/_snapshots.yml", "check_cols: all", "check_cols: [label]"
    ),
    "a snapshot that keeps what is gone": replaced(
        "snapshots/_snapshots.yml", "hard_deletes: invalidate", "hard_deletes: ignore"
    ),
    "another type in a seed": replaced("seeds/_seeds.yml", "label: string", "label: varchar(9)"),
    "a model switched off": replaced(
        f"{DWD}order_flow.sql", "materialized=", "enabled=false, materialized="
    ),
    "a model gone": gone(f"{DWD}order_flow.sql"),
    "a folded model gone": gone(f"{DWS}label_count.sql"),
    "a model more": new(
        f"{DWS}order_total.sql", "select sum(order_count) as n from {{ ref('order_count_td') }}"
    ),
    "another alias": replaced(
        f"{DWS}order_count.sql", "sort_by=", "alias='order_counts', sort_by="
    ),
    "another schema": replaced(
        f"{DWD}order_flow.sql", "materialized=", "schema='x', materialized="
    ),
    "another name": renamed("order_newest", "order_latest"),
    "another name of the log's table": renamed(ORDERS, "ods_shop__orders"),
    "another name of a view": renamed("order_changelog", "order_rows"),
    "another name of a count": renamed("order_count", "order_days"),
    # and its settings of models fit nothing any more
    "another name of the project": replaced(
        "dbt_project.yml", "name: binlog_warehouse", "name: warehouse"
    ),
    "another name of the project and its settings": _project_renamed,
}
