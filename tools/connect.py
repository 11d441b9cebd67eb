"""`make connect TOOL=spark-sql`: what another tool needs to read this warehouse, ready to paste.

    spark-sql   a command line with the jars and the settings; it reads tables and views
    pyiceberg   Python; it reads tables, not views
    duckdb      Python with pyiceberg; it reads tables, not views

No password is printed: a setting that holds a secret stands as a line to fill in.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from dbt.adapters.sparksession.catalogs import SQLITE
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.secrets import is_secret, secrets_of_url
from dbt_common.exceptions import DbtRuntimeError

from tools.sql import reading_credentials

TOOLS = ("spark-sql", "pyiceberg", "duckdb")
# what decides how rows are read; the rest of the profile's settings is about this process
READING = (
    "spark.sql.ansi.enabled",
    "spark.sql.defaultCatalog",
    "spark.sql.extensions",
    "spark.sql.session.timeZone",
)
LOAD = """\
from pyiceberg.catalog.sql import SqlCatalog

catalog = SqlCatalog(
    {catalog!r},
    uri={uri!r},
    warehouse={warehouse!r},
    init_catalog_tables="false",
)
print(catalog.list_tables({schema!r}))
table = catalog.load_table({table!r})
"""
ASK = {
    "pyiceberg": "print(table.scan(limit=5).to_arrow())\n",
    "duckdb": """\
import duckdb

rows = table.scan().to_arrow()
print(duckdb.sql("select count(*) from rows"))
""",
}
NOTE = "# needs: pip install 'pyiceberg[sql-sqlite,pyarrow]'{more}; views can't be read"


def reading_settings(credentials: SparkSessionCredentials) -> dict[str, str]:
    """Spark settings by which any Spark reads the warehouse's catalog."""
    lake = f"spark.sql.catalog.{credentials.catalog}"
    settings = credentials.spark_settings()
    return {
        key: value
        for key, value in settings.items()
        if key in READING or key == lake or key.startswith(f"{lake}.")
    }


def spark_sql(credentials: SparkSessionCredentials) -> Iterator[str]:
    """Lines of the command.

    Raises:
        DbtRuntimeError: Spark's jars weren't resolved yet.
    """
    found = sorted((Path(credentials.path(credentials.jars_dir)) / "jars").glob("*.jar"))
    jars = [*map(str, found), *credentials.jars()[2]]
    if not found:
        raise DbtRuntimeError("The jars aren't here yet: `make run` brings them along.")
    yield "# SPARK_HOME: of a Spark 4.1, such as the project's own:"
    yield "export SPARK_HOME=$(.venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')"
    yield '"$SPARK_HOME"/bin/spark-sql \\'
    yield f"  --jars {shlex.quote(','.join(jars))} \\"
    yield "  --conf spark.sql.catalogImplementation=in-memory \\"
    for key, value in reading_settings(credentials).items():
        if is_secret(key) or secrets_of_url(value):
            yield f"  --conf {key}=<fill in> \\"
        else:
            yield f"  --conf {shlex.quote(f'{key}={value}')} \\"
    yield f"  --database {credentials.published_schema}"


def python(credentials: SparkSessionCredentials, tool: str) -> Iterator[str]:
    """Lines of a Python script.

    Raises:
        DbtRuntimeError: the catalog is no file, and pyiceberg's own settings are needed.
    """
    folder = credentials.folder()
    if credentials.catalog_type != SQLITE or folder is None:
        raise DbtRuntimeError(
            f"CATALOG is {credentials.catalog_type}: configure pyiceberg for it as its own pages "
            "describe, with the catalog's address and a login of its own."
        )
    yield NOTE.format(more=" duckdb" if tool == "duckdb" else "")
    yield LOAD.format(
        catalog=credentials.catalog,
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=f"file://{folder}/data",
        schema=credentials.schema,
        table=f"{credentials.schema}.dws_trade__user_status_1d",
    ) + ASK[tool].rstrip("\n")


def main(tool: str) -> int:
    """Print it; the process's exit code.

    Raises:
        DbtRuntimeError: there is no warehouse, or nothing can be printed for the tool.
    """
    credentials = reading_credentials()
    lines = spark_sql(credentials) if tool == "spark-sql" else python(credentials, tool)
    print("\n".join(lines))
    return 0
