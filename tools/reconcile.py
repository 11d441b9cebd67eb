"""`make reconcile`: count from scratch, and compare.

The counts are held against the latest rows and the changelog. With MYSQL_URL set they are held
against the source database too: it is asked first, then the warehouse reads the log on to that
place, and then the two are compared.

    MYSQL_URL       jdbc:mysql://host:port/
    MYSQL_USER, MYSQL_PASSWORD   who may select from the table, and has REPLICATION CLIENT; with
                    REPLICATION SLAVE too a quiet source is distinguished from a late log
    MYSQL_LOCK      true: writers of the table wait for a moment (needs LOCK TABLES). Needed where
                    the server is never without a commit for two seconds
    MYSQL_JARS      the driver: coordinates or jar files, comma separated
"""

from __future__ import annotations

import os

from dbt.cli.main import dbtRunner

NO_UNIT_TESTS = ["--exclude-resource-type", "unit_test"]
VERDICTS = """
select check_name, max_by(verdict, checked_at) as verdict,
    max_by(groups_compared, checked_at) as compared,
    max_by(groups_differing, checked_at) as differing, max(checked_at) as last_checked_at
from {{ ref('meta_quality') }}
group by check_name
order by check_name
"""
NEXT = """Which groups differ stands in the reconciliations, for example
  .venv/bin/dbt show --profiles-dir profiles --inline \\
    "select * from {{ ref('dqc_trade__user_status_reconciliation') }} where not is_total"
A check that was not reached: the log hasn't come as far as the source's answer yet. Run
  dbt build --selector source_reconciliation
after a later run: it compares with the same answer.
"""


def main() -> int:
    runner = dbtRunner()
    commands = [["build", "--selector", "reconciliation", *NO_UNIT_TESTS]]
    if os.environ.get("MYSQL_URL"):
        commands = [
            ["run", "--select", "dqc_trade__user_status_at_source"],
            ["run"],
            ["build", "--selector", "source_reconciliation", *NO_UNIT_TESTS],
            *commands,
        ]
    failed = False
    for command in commands:
        done = runner.invoke(command)
        failed = failed or not done.success
        if done.exception is not None or (failed and command[0] == "run"):
            print(f"`dbt {' '.join(command)}` failed: {done.exception or 'see above'}")
            return 2
    print("\nNewest verdict of each check")
    runner.invoke(["--quiet", "show", "--inline", VERDICTS, "--limit", "-1"])
    print(NEXT)
    return 1 if failed else 0
