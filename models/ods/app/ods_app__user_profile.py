from python_udfs.ingestion.table_changes import table_changes


def model(dbt, session):
    dbt.config(materialized="incremental")
    return table_changes(dbt, session, binlog=dbt.ref("ods_binlog"))
