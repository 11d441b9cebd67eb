from python_udfs.source.count import source_count


def model(dbt, session):
    dbt.config(materialized="table", tags=["source"])
    return source_count(dbt, session, binlog=dbt.ref("ods_binlog"))
