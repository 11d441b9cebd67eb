"""The project that careless users play with: each kind of model over a small log of two tables.

The ODS models, their settings and the macros are the repository's own; the models behind them are
small, one of each kind.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.support.dbt_project import REPO, DbtProject

ORDERS, PRICES = "ods_shop__order_info", "ods_shop__product_price"
POSITION = ["binlog_file_number", "binlog_position", "row_number"]
STATUSES = """
    status,label
    created,new
    paid,new
    in_trip,running
    cancelled,ended
"""
MODELS = {
    "models/ods/ods_binlog.py": (REPO / "models/ods/ods_binlog.py").read_text("utf-8"),
    f"models/ods/shop/{ORDERS}.py": (REPO / f"models/ods/shop/{ORDERS}.py").read_text("utf-8"),
    f"models/ods/shop/{PRICES}.py": (REPO / f"models/ods/shop/{PRICES}.py").read_text("utf-8"),
    "models/dwd/order_changelog.sql": f"""
        {{{{ config(event_time='event_time', meta={{'row_wise': true}}) }}}}
        with typed as (
            select * from {{{{ ref('{ORDERS}') }}}} where reject_reason is null
        )
        {{{{ retract_rows(
            from_cte='typed',
            image_columns=['order_id', 'user_id', 'amount', 'biz_status'],
            change_columns={[*POSITION, "unique_key", "event_time", "cut_date"]},
        ) }}}}
    """,
    "models/dwd/order_newest.sql": f"""
        {{{{ config(
            materialized='folded',
            unique_key='order_id',
            fold={{'sequence': {POSITION}, 'row_kind': 'row_kind'}},
        ) }}}}
        select
            order_id, user_id, amount, biz_status, row_kind, {", ".join(POSITION)}
        from {{{{ new_rows(ref('order_changelog')) }}}}
    """,
    "models/dwd/price_zip.sql": f"""
        {{{{ config(
            materialized='folded',
            unique_key='product_id',
            zipper={{
                'sequence': {POSITION},
                'time': 'event_time',
                'tracked': ['price'],
                'row_kind': 'row_kind',
            }},
        ) }}}}
        with typed as (
            select * from {{{{ new_rows(ref('{PRICES}')) }}}} where reject_reason is null
        )
        {{{{ retract_rows(
            from_cte='typed',
            image_columns=['product_id', 'price'],
            change_columns={["event_time", *POSITION]},
        ) }}}}
    """,
    "models/dwd/price_belief.sql": """
        {{ config(
            materialized='folded',
            unique_key=['product_id', 'valid_from'],
            zipper={'sequence': 'known_time', 'row_kind': 'row_kind', 'period': 'known'},
            full_refresh=false,
            on_definition_change='accept',
            meta={'put_back': false},
        ) }}
        {{ beliefs(
            rows=ref('price_zip'),
            key=['product_id', 'valid_from'],
            columns=['price', 'valid_to'],
        ) }}
    """,
    "models/dwd/order_status.sql": """
        {{ config(
            materialized='folded',
            unique_key=['order_id', 'status'],
            fold={'sequence': 'commit_number', 'row_kind': 'row_kind'},
        ) }}
        {{ many_to_one_join(
            left={
                'relation': ref('order_newest'),
                'key': 'order_id',
                'columns': ['order_id', 'user_id', 'amount', 'biz_status'],
            },
            right={'relation': ref('statuses'), 'key': 'status', 'columns': ['status', 'label']},
            on={'biz_status': 'status'},
            kind='left',
        ) }}
    """,
    "models/dwd/order_flow.sql": """
        {{ config(materialized='incremental', incremental_strategy='append_new_rows') }}
        select order_id, amount, label, sign from {{ new_changes(ref('order_status')) }}
    """,
    "models/dws/order_count.sql": """
        {{ config(partition_by='cut_date', sort_by=['user_id', 'biz_status']) }}
        with changes as (
            select cut_date, user_id, biz_status, amount, sign
            from {{ changed_partitions(ref('order_changelog'), by='cut_date') }}
        )
        {{ daily_cut(count=user_status(), from_cte='changes') }}
    """,
    "models/dws/order_count_1m.sql": """
        {{ config(partition_by='cut_month') }}
        with days as (
            select *
            from {{ closed_periods(
                ref('order_count'), by='cut_date', period='month', into='cut_month'
            ) }}
        )
        {{ roll_up(
            count=user_status(), from_cte='days', of_column='cut_date', into='cut_month'
        ) }}
    """,
    "models/dws/order_count_td.sql": """
        {{ config(materialized='view') }}
        {{ to_date(
            count=user_status(), days=ref('order_count'), months=ref('order_count_1m')
        ) }}
    """,
    "models/dws/label_count.sql": """
        {{ config(materialized='table') }}
        select label, count(*) as order_count, sum(amount) as amount_sum
        from {{ pinned(ref('order_status')) }}
        group by label
    """,
    "models/dws/user_count.py": """
        def model(dbt, session):
            dbt.config(materialized="table")
            from pyspark.sql import functions as F

            days = dbt.ref("order_count")
            return days.groupBy("user_id").agg(F.sum("order_count_change").alias("order_count"))
    """,
    "seeds/statuses.csv": STATUSES,
    "snapshots/_snapshots.yml": """
        snapshots:
          - name: status_versions
            relation: ref('statuses')
            config:
              unique_key: status
              strategy: check
              check_cols: all
              hard_deletes: invalidate
    """,
    "models/_models.yml": """
        models:
          - name: order_newest
            columns: [{name: order_id, data_tests: [unique]}]
          - name: order_count_td
            data_tests:
              - unique_combination:
                  name: a_user_has_each_status_once
                  arguments: {columns: [user_id, biz_status]}
          - name: price_zip
            data_tests:
              - one_current_per_key: {arguments: {key: [product_id]}}
    """,
    "seeds/_seeds.yml": """
        seeds:
          - name: statuses
            config: {column_types: {status: string, label: string}}
            columns: [{name: status, data_tests: [unique, not_null]}]
    """,
}
# dbt reads a year at a time; all years again in each run, as what comes late is of any of them
IN_BATCHES = {
    "models/dwd/order_year.sql": """
        {{ config(
            materialized='incremental',
            incremental_strategy='microbatch',
            event_time='event_time',
            batch_size='year',
            begin='2018-01-01',
            lookback=99,
            partition_by='years(event_time)',
        ) }}
        select event_time, order_id, user_id, amount, biz_status, sign
        from {{ ref('order_changelog') }}
    """,
}
DECLARED = {
    ORDERS: {
        "order_id": "bigint unsigned",
        "user_id": "bigint unsigned",
        "amount": "decimal(12,2)",
        "biz_status": "varchar(30)",
        "update_time": "datetime(3)",
    },
    PRICES: {"product_id": "int", "price": "decimal(12,4)"},
}
FIX = "fix"  # the batch that corrects the log


def make_project(
    folder: Path, warehouse: Path, landing: Path, in_batches: bool = False
) -> DbtProject:
    """Write the project into a folder; it reads `landing` and builds into `warehouse`.

    Args:
        in_batches: whether it has a model that dbt cuts into batches, which take their time.
    """
    folder.mkdir(parents=True)
    for name in ("macros", "profiles", "tests/dbt/generic"):
        shutil.copytree(REPO / name, folder / name)
    shutil.copy(REPO / "jars.lock", folder)  # which the profile names
    (folder / "python_udfs").symlink_to(REPO / "python_udfs")
    project = DbtProject(folder, warehouse, profiles=folder / "profiles", landing=landing)
    project.write(MODELS | (IN_BATCHES if in_batches else {}))
    typed = folder / "macros/quality/typed_models.sql"
    if typed.is_file():
        refs = ", ".join(f"ref('{name}')" for name in DECLARED)
        typed.write_text(f"{{% macro typed_models() %}}{{% do return([{refs}]) %}}{{% endmacro %}}")
    for name, settings in (
        ("dbt_project.yml", _project_file()),
        ("models/ods/_ods__models.yml", _ods_models()),
    ):
        (folder / name).write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return project


def _project_file() -> dict[str, Any]:
    """The repository's own dbt_project.yml, with the folders that are here."""
    reported = yaml.safe_load((REPO / "dbt_project.yml").read_text("utf-8"))
    (name,) = reported["models"]
    reported["models"][name] = _without_contracts(
        {
            key: value
            for key, value in reported["models"][name].items()
            if key.startswith("+") or key in ("ods", "dwd", "dws")
        }
    )
    reported["models"][name]["+persist_docs"] = {"relation": False}
    reported["test-paths"] = ["tests/dbt"]
    return reported


def _without_contracts(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of folders or models without contracts, groups and access: the small models declare
    no columns, an edit changes them, and there are no groups."""
    return {
        key: _without_contracts(value) if isinstance(value, dict) else value
        for key, value in settings.items()
        if key.removeprefix("+") not in ("contract", "group", "access")
    }


def _ods_models() -> dict[str, Any]:
    """The repository's own declarations of the ODS models here, with the columns that count."""
    ods = yaml.safe_load((REPO / "models/ods/_ods__models.yml").read_text("utf-8"))
    shop = yaml.safe_load((REPO / "models/ods/shop/_shop__models.yml").read_text("utf-8"))
    (log,) = (model for model in ods["models"] if model["name"] == "ods_binlog")
    held_once = [test for test in log["data_tests"] if "unique_combination" in test]
    models = [
        {"name": "ods_binlog", "config": _without_contracts(log["config"]), "data_tests": held_once}
    ]
    for model in shop["models"]:
        if model["name"] in DECLARED:
            config = _without_contracts(model["config"])
            source = config["meta"]["source"]
            columns = DECLARED[model["name"]]
            source["columns"] = columns
            for key in ("cut_column", "aliases", "required_columns", "columns_of_interest"):
                given = source.get(key)
                names = [given] if isinstance(given, str) else list(given or [])
                if not set(names) <= set(columns):
                    del source[key]
            key = [{"name": "unique_key", "data_tests": ["unique", "not_null"]}]
            models.append({"name": model["name"], "config": config, "columns": key})
    return {"version": 2, "models": models}


def text_of(project: DbtProject, name: str) -> str:
    return (project.root / name).read_text(encoding="utf-8")


def models_of(project: DbtProject) -> dict[str, Path]:
    """Name -> file of each model that the project has now."""
    files = (project.root / "models").rglob("*")
    return {file.stem: file for file in files if file.suffix in (".sql", ".py")}
