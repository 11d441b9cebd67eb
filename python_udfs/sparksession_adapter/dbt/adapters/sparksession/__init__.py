"""dbt adapter `sparksession`: dbt-spark on one in-process Spark session and Iceberg tables."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.impl import SparkSessionAdapter
from dbt.include import sparksession

Plugin = AdapterPlugin(
    adapter=SparkSessionAdapter,  # type: ignore[arg-type]
    credentials=SparkSessionCredentials,
    include_path=sparksession.PACKAGE_PATH,
    dependencies=["spark"],
)
