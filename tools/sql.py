"""`make sql`: ask the warehouse.

    make sql                                      a shell that stays open
    make sql Q="select count(*) from dws_trade__user_status_td"   one statement, or several
    make sql Q=".." FORMAT=csv > file             csv or json: all rows, without their count
    make sql < file.sql                           statements of a file

It only reads, and what it reads by plain names is the newest published version. It takes no lease:
a run may write meanwhile, and each statement sees one state of each table.
"""

from __future__ import annotations

import os
import sys

from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.session import own_session
from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import SparkSession

from tools.asking.shell import Shell, use_schema
from tools.asking.terminal import talk
from tools.profile import ROOT, credentials_of_profile, read_only

HISTORY = ROOT / "logs" / "sql_history"


def reading_credentials() -> SparkSessionCredentials:
    """The profile's, with a catalog file that can't be written.

    Raises:
        DbtRuntimeError: there is no warehouse to read.
    """
    credentials = credentials_of_profile()
    if credentials.offline:
        raise DbtRuntimeError("The profile has `offline`: nothing can be asked. Set DBT_TARGET.")
    return read_only(credentials)


def open_published(credentials: SparkSessionCredentials) -> tuple[SparkSession, str]:
    """A session, and the schema of its plain names: what is published, or else the tables as runs
    left them.

    Raises:
        DbtRuntimeError: there is neither, or Spark doesn't start.
    """
    session = own_session(credentials).session
    published, own = credentials.published_schema, credentials.schema or ""
    return session, use_schema(session, credentials.catalog, published, own)


def main(statements: str, output_format: str) -> int:
    """Run statements, or a shell where there are none; the process's exit code.

    Raises:
        DbtRuntimeError: there is no warehouse to read, or Spark doesn't start.
    """
    # a short question is over before Java's second compiler has paid for itself
    from tools.run import QUICK_COMPILER

    os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_COMPILER)
    credentials = reading_credentials()
    session, schema = open_published(credentials)
    shell = Shell(session, output_format)
    if statements:
        return 0 if shell.run_script(statements.splitlines()) else 1
    if not sys.stdin.isatty():
        return 0 if shell.run_script(sys.stdin) else 1
    print(f"Tables of {schema}. \\? for help, \\q to leave.")
    if schema != credentials.published_schema:
        print("Nothing is published yet: these are the tables as runs left them.")
    talk(shell, HISTORY)
    return 0
