from python_udfs.ingestion.binlog_messages import binlog_messages


def model(dbt, session):
    dbt.config(materialized="incremental")
    return binlog_messages(dbt, session)
