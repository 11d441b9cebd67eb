from python_udfs.ods import binlog_messages


def model(dbt, session):
    dbt.config(materialized="incremental")
    return binlog_messages(dbt, session)
