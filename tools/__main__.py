"""The command line behind `make`: `.venv/bin/python -m tools --help` lists its commands.

A command imports what it runs when it runs: dbt and Spark take seconds to load.
"""

from __future__ import annotations

import os
import sys

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """What `make` calls, by names of its own."""


@cli.command()
@click.option("--verbose", is_flag=True, help="all that dbt prints, on a terminal too")
def run(verbose: bool) -> None:
    """Build the whole warehouse and print what was built."""
    from tools.run import main

    sys.exit(main(verbose))


@cli.command()
@click.option(
    "--pause", type=float, default=0.0, envvar="FOLLOW_PAUSE", help="seconds between builds"
)
@click.option("--select", default="", envvar="FOLLOW_SELECT", help="dbt's --select of the builds")
# an empty variable means never; click would take it for an absent one
@click.option(
    "--maintenance",
    default=lambda: os.environ.get("FOLLOW_MAINTENANCE", "03:00-05:00"),
    help="times of the business day for maintenance; empty: never",
)
@click.option("--port", type=int, envvar="FOLLOW_PORT", help="of 127.0.0.1: /health and /metrics")
@click.option("--cycles", type=int, help="end after so many builds")
@click.option("--check", type=click.Choice(["live", "ready"]), help="ask the process that follows")
def follow(
    pause: float, select: str, maintenance: str, port: int | None, cycles: int | None, check: str
) -> None:
    """Keep the warehouse fresh: build what lands, publish it, and go on."""
    from tools.follow import main, main_of_check, settings_of
    from tools.following.health import HealthError
    from tools.following.loop import window_of

    try:
        window = window_of(maintenance)
    except ValueError as exc:
        raise click.BadParameter(str(exc), param_hint="--maintenance") from None
    settings = settings_of(pause=pause, select=select, window=window, port=port, cycles=cycles)
    try:
        sys.exit(main_of_check(settings, check) if check else main(settings))
    except HealthError as exc:
        raise click.ClickException(str(exc)) from None


@cli.command()
def docs() -> None:
    """Build the site of the pages, with dbt's docs and the newest report."""
    from tools.docs import main

    sys.exit(main())


@cli.command()
@click.argument("statements", envvar="SQL", default="")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "csv", "json"]),
    envvar="FORMAT",
    default="table",
    help="csv and json give all rows, without a head or a count of them",
)
def sql(statements: str, output_format: str) -> None:
    """Ask the warehouse: a shell that stays open, or STATEMENTS. It only reads."""
    from dbt_common.exceptions import DbtRuntimeError

    from tools.sql import main

    try:
        sys.exit(main(statements, output_format))
    except DbtRuntimeError as exc:
        raise click.ClickException(exc.msg) from None


@cli.command()
@click.option(
    "--tool",
    type=click.Choice(["spark-sql", "pyiceberg", "duckdb"]),
    envvar="TOOL",
    default="spark-sql",
    help="what is to read the warehouse",
)
def connect(tool: str) -> None:
    """Print what another tool needs to read the warehouse."""
    from dbt_common.exceptions import DbtRuntimeError

    from tools.connect import main

    try:
        sys.exit(main(tool))
    except DbtRuntimeError as exc:
        raise click.ClickException(exc.msg) from None


@cli.command()
@click.option(
    "--port", type=int, default=10000, envvar="SERVE_PORT", help="of 127.0.0.1; 0 takes a free one"
)
def serve(port: int) -> None:
    """Serve the newest published version to BI tools, by JDBC. It only reads."""
    from dbt_common.exceptions import DbtRuntimeError

    from tools.serve import main

    try:
        sys.exit(main(port))
    except DbtRuntimeError as exc:
        raise click.ClickException(exc.msg) from None


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1)
def notebook(options: tuple[str, ...]) -> None:
    """Open JupyterLab on the newest published version, with OPTIONS of its own. It only reads."""
    from dbt_common.exceptions import DbtRuntimeError

    from tools.notebook import main

    try:
        sys.exit(main(options))
    except DbtRuntimeError as exc:
        raise click.ClickException(exc.msg) from None


@cli.command()
def report() -> None:
    """Make one page about the state of the warehouse and print where it is."""
    from tools.report.make import main

    sys.exit(main())


@cli.command("full-load")
@click.argument("table")
def full_load(table: str) -> None:
    """Land the rows that a MySQL table, as database.table, has now."""
    from python_udfs.servers.errors import ServerError
    from tools.full_load import main

    try:
        sys.exit(main(table))
    except ServerError as exc:
        raise click.ClickException(str(exc)) from None


@cli.command("new-table")
@click.argument("table", default="")
def new_table(table: str) -> None:
    """Write the declaration and the model of a table of the log, as database.table."""
    from dbt_common.exceptions import DbtRuntimeError

    from tools.declaring.block import UnusableNameError
    from tools.declaring.log import UnknownTableError
    from tools.new_table import NewTableError, main

    try:
        sys.exit(main(table))
    except (NewTableError, UnknownTableError, UnusableNameError) as exc:
        raise click.ClickException(str(exc)) from None
    except DbtRuntimeError as exc:
        raise click.ClickException(exc.msg) from None


@cli.command()
def reconcile() -> None:
    """Count from scratch and compare, with the source database where MYSQL_URL is set."""
    from tools.reconcile import main

    sys.exit(main())


@cli.command()
@click.argument("first", default="")
@click.argument("last", default="")
def compensate(first: str, last: str) -> None:
    """Write business days of the counts again: FIRST to LAST, or those that are wrong."""
    from tools.compensate import CompensateError, main

    try:
        sys.exit(main(first, last))
    except CompensateError as exc:
        raise click.ClickException(str(exc)) from None


@cli.command("ci-diff")
@click.option("--base", envvar="BASE", default="main", help="commit to compare with")
@click.option("--state", envvar="STATE", default="", help="folder of a manifest.json instead")
@click.option("--schema", envvar="CI_SCHEMA", default="ci", help="where the change is built")
def ci_diff(base: str, state: str, schema: str) -> None:
    """Build what was changed in a schema of its own and compare it with the newest version."""
    from tools.ci_diff import CiDiffError, main

    try:
        sys.exit(main(base, state, schema))
    except CiDiffError as exc:
        raise click.ClickException(str(exc)) from None


@cli.command()
def clean() -> None:
    """Delete target/ and logs/."""
    from tools.clean import CleanError, clean_project

    try:
        clean_project()
    except CleanError as exc:
        raise click.ClickException(str(exc)) from None


@cli.command("drop-warehouse")
@click.option("--yes", "name", help="the folder's name; without it the command asks for it")
def drop_warehouse(name: str | None) -> None:
    """Delete the tables and the catalog in WAREHOUSE."""
    from tools.clean import CleanError, drop_configured

    try:
        drop_configured(name)
    except CleanError as exc:
        raise click.ClickException(str(exc)) from None


@cli.command()
def layers() -> None:
    """Check which module imports which, by the contracts of pyproject.toml."""
    from tools.layers import main

    sys.exit(main())


if __name__ == "__main__":
    cli(prog_name="python -m tools")
