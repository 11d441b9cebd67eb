"""`make full-load TABLE=shop.order_info`: land the rows that a MySQL table has now.

What it writes and how, see python_udfs/source/full_load.py.

    MYSQL_URL       jdbc:mysql://host:port/
    MYSQL_USER, MYSQL_PASSWORD   who may select from the table, and has REPLICATION CLIENT
    MYSQL_LOCK      true: lock the table against writes, default false
    MYSQL_RANGES    how many ranges of the key are read, default two for each core
    MYSQL_JARS      the driver: coordinates or jar files, comma separated
    LANDING         as of dbt, default landing; LANDING_OPTIONS where it is a URI
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from python_udfs.ingestion.landing.object_stores import landing_place
from python_udfs.servers.mysql import is_lock_wanted, settings
from python_udfs.source.full_load import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
JARS = "com.mysql:mysql-connector-j:9.3.0"


@contextmanager
def spark() -> Iterator[SparkSession]:
    """Spark as the project's profile sets it, with the driver's jars in the place of Kafka's."""
    from dbt.adapters.sparksession.session import application

    from tools.profile import credentials_of_profile

    jars = os.environ.get("MYSQL_JARS") or JARS
    credentials = replace(credentials_of_profile(), extra_jars=jars)
    credentials.project_root = str(ROOT)  # replace() made another
    session = application(credentials)
    try:
        yield session
    finally:
        session.stop()


def main(table: str) -> int:
    """Land a table; the number that the process ends with.

    Args:
        table: database.table.

    Raises:
        ServerError: the server can't be reached or refuses.
    """
    missing = [name for name in ("MYSQL_URL", "MYSQL_USER") if not os.environ.get(name)]
    if not table or missing:
        print(
            "Usage: MYSQL_URL=jdbc:mysql://host:port/ MYSQL_USER=.. MYSQL_PASSWORD=.. "
            f"make full-load TABLE=database.table{'; not set: ' if missing else ''}"
            f"{', '.join(missing)}",
            file=sys.stderr,
        )
        return 2
    landing = landing_place(str(ROOT), os.environ.get("LANDING") or "landing")
    with spark() as session:
        count = int(os.environ.get("MYSQL_RANGES") or 2 * session.sparkContext.defaultParallelism)
        place, rows = load(session, settings(), landing, table, count, is_lock_wanted())
    print(f"{rows:,} rows of {table} landed in {place}")
    return 0
