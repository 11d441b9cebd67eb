from python_udfs.ingestion.table_changes import binlog_messages


def model(dbt, session):
    dbt.config(materialized="incremental")
    return binlog_messages(dbt, session)
