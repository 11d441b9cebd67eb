"""A dbt project under test: runs dbt, asks the warehouse, hides the command line."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.adapters.sparksession import building, evaluation, local_rows
from dbt.adapters.sparksession.catalogs import scheme_of
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.session import application, own_session
from dbt.cli import requires
from dbt.cli.main import dbtRunner
from dbt.config.profile import Profile
from dbt.config.renderer import ProfileRenderer
from dbt.contracts.graph.manifest import Manifest
from dbt_common.context import set_invocation_context
from dbt_common.tests import enable_test_caching

from tests.support.variables import Variables
from tools.run import QUICK_COMPILER

REPO = Path(__file__).parents[2]
# small tables: one core, few shuffle tasks, the quick compiler alone and a collector without
# threads of its own are the fastest. A heap that is there at once, most of it for what is new, and
# room for Spark's classes: else whole collections at the start, and many small objects after it.
# Each sort and each hash table takes a page of 64 MB first where there is one core, each broadcast
# 4 MB: 10 of the 27 GB that two tests of versions allocated. Spark keeps what it did for a page
# that nobody opens, with the plans of 1,000 queries
OF_SMALL_TABLES = {
    "buffer.pageSize": "1m",
    "broadcast.blockSize": "64k",
    "sql.ui.retainedExecutions": 20,
    "ui.retainedJobs": 100,
    "ui.retainedStages": 100,
}
SMALL_SPARK = {
    "SPARK_MASTER": "local[1]",
    "SPARK_DRIVER_MEMORY": "2g",
    "SPARK_SHUFFLE_PARTITIONS": "2",
    "SPARK_SUBMIT_OPTS": (
        f"{QUICK_COMPILER} -XX:+UseSerialGC -Xms2g -Xmn1200m -XX:MetaspaceSize=512m "
        + " ".join(f"-Dspark.{name}={number}" for name, number in OF_SMALL_TABLES.items())
    ),
}
COMPILES_ALL = "TESTS_COMPILE_ALL"  # environment variable, for the children of a test too
NOT_OURS = ("type", "threads")  # keys of a profile that dbt itself takes
# folders of a project that dbt parses
PARSED = ("models", "macros", "tests", "seeds", "snapshots", "analyses", "functions")
# options with which dbt changes what it has parsed
CHANGING = ("--inline", "--defer", "--state", "--target")
# dbt reads the Jinja of a text once in a process: macros alone are four fifths of what it parses
enable_test_caching()
_parsed_before: dict[tuple[str, ...], bytes] = {}  # settings, profile, vars -> dbt's own file
_variables = Variables()  # of all projects: the process has them once
_parse = requires.parse_manifest
_last_parsed: list[Manifest] = []  # the newest alone


def _parse_and_keep(*args: Any, **options: Any) -> Manifest:
    _last_parsed[:] = [_parse(*args, **options)]
    return _last_parsed[0]


requires.parse_manifest = _parse_and_keep


@dataclass(frozen=True)
class NodeResult:
    """What dbt states of one node of a run.

    Attributes:
        status: success, error, skipped, pass, fail, warn, ...
        message: dbt's line, or the error.
        adapter_response: what the adapter reported; {} where it reported nothing.
        failures: rows that a test found; None of anything else.
    """

    status: str
    message: str
    adapter_response: dict[str, Any]
    failures: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What one dbt command did.

    Attributes:
        ok: whether the command succeeded.
        results: node name -> result, for commands that run nodes.
        log: all that dbt printed.
        exception: what stopped the command as a whole; None where nothing did.
        raw: dbt's own result object.
    """

    ok: bool
    results: dict[str, NodeResult] = field(default_factory=dict)
    log: str = ""
    exception: BaseException | None = None
    raw: Any = field(default=None, repr=False)

    def statuses(self) -> dict[str, str]:
        """Node name -> status."""
        return {name: result.status for name, result in self.results.items()}


@contextlib.contextmanager
def few_rows_in_turns(run: int, compiles: bool = True) -> Iterator[None]:
    """Within it a run of a project reads few rows as it would read many, or as few: the tests have
    few rows, and what is right for them has to be right for many.

    Args:
        run: number of the project's run, the first is 0.
        compiles: whether the queries over many rows are compiled.
    """
    evaluates, holds = ((run - 1) % 4 in turns for turns in ((0, 2), (0, 1)))
    with pytest.MonkeyPatch.context() as patch:
        for module in (evaluation, building) if not compiles else ():
            patch.setattr(module, "compile_again", evaluation.leave_uncompiled)
        if not evaluates:
            patch.setattr(evaluation, "FEW_ROWS", -1)
        if not holds:
            patch.setattr(local_rows, "MOST_ROWS", -1)
        yield


def compiles_all() -> bool:
    """Whether Spark compiles the queries of all projects, as in `make soak`. To compile a query
    takes longer than to evaluate it over the rows of a test: `make test` compiles those of the
    sample's builds alone."""
    return os.environ.get(COMPILES_ALL) == "true"


def copied_profiles(root: Path, compiles: bool) -> Path:
    """Copy the repository's profiles below a folder, as they are or so that Spark compiles no
    query; return the copy."""
    copied = root / "profiles"
    shutil.copytree(REPO / "profiles", copied, dirs_exist_ok=True)
    if not compiles:
        text = (copied / "profiles.yml").read_text(encoding="utf-8")
        line = '        spark.sql.codegen.hugeMethodLimit: "8000"\n'
        assert text.count(line) == 1
        more = (f'        {key}: "{value}"\n' for key, value in evaluation.UNCOMPILED.items())
        (copied / "profiles.yml").write_text(text.replace(line, line + "".join(more)), "utf-8")
    return copied


class DbtProject:
    """A dbt project and the warehouse it builds.

    Args:
        root: folder of dbt_project.yml.
        warehouse: folder of the tables, unless the environment's WAREHOUSE is a URI; `target` and
            `logs` of dbt lie beside it.
        profiles: folder of profiles.yml; the repository's own where there is none given.
        compiles: whether Spark compiles the queries of its runs, as it does in production, or
            evaluates them, as its profile has it then: see copied_profiles.
        env: further environment variables of each command, named in lower case: landing=... sets
            LANDING.
    """

    def __init__(
        self,
        root: Path,
        warehouse: Path,
        profiles: Path | None = None,
        *,
        compiles: bool = True,
        **env: Path | str,
    ) -> None:
        self.compiles = compiles
        self.root, self.warehouse = Path(root), Path(warehouse)
        self.target = self.warehouse.parent / "target"
        self.logs = self.warehouse.parent / "logs"
        self.profiles = profiles or REPO / "profiles"
        small = {key: value for key, value in SMALL_SPARK.items() if key not in os.environ}
        self.env = small | {
            "WAREHOUSE": str(self.warehouse),
            "JARS_DIR": str(REPO / ".jars"),
            "DBT_TARGET_PATH": str(self.target),
            "DBT_LOG_PATH": str(self.logs),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            **{key.upper(): str(value) for key, value in env.items()},
        }
        self._credentials: SparkSessionCredentials | None = None
        self._parsed: tuple[Any, Manifest] | None = None
        self._own_files: dict[tuple[str, ...], bytes] = {}  # as _parsed_before, of this project
        self._runs = 0

    def write(self, files: dict[str, str]) -> None:
        """Write files (path below the root -> text, dedented) over those that are there."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")

    def run(
        self,
        *args: str,
        vars: dict[str, Any] | None = None,
        expect_ok: bool | None = True,
    ) -> Outcome:
        """Run dbt in this process; only `docs`, and what asks for it by --write-json, leaves a
        manifest and results in the target folder, whose writing takes a quarter of a command's
        time.

        Args:
            args: the command as on the command line, e.g. "run", "--select", "orders".
            vars: the project's --vars.
            expect_ok: what the command has to end as, None for either.

        Raises:
            AssertionError: it ended otherwise; the message is dbt's log.
        """
        printed = io.StringIO()
        writes = args[0] == "docs" or "--write-json" in args
        without = [] if writes else ["--no-write-json"]
        state = None if writes or set(CHANGING) & set(args) else self._state(vars)
        few = few_rows_in_turns(self._runs, self.compiles)
        self._runs += 1
        with (
            self._environment(),
            self._parsed_once(vars),
            contextlib.redirect_stdout(printed),
            few,
        ):
            _last_parsed.clear()
            manifest = self._as_parsed(state)
            done = dbtRunner(manifest=manifest).invoke([*args, *self._options(vars), *without])
        if state is not None and _last_parsed:
            self._parsed = state, _last_parsed[0]
        outcome = Outcome(
            ok=done.success,
            results=_results(done.result),
            log=printed.getvalue(),
            exception=done.exception,
            raw=done.result,
        )
        if expect_ok is not None and outcome.ok is not expect_ok:
            raise AssertionError(
                f"dbt {' '.join(args)} {'succeeded' if outcome.ok else 'failed'}:\n"
                f"{outcome.log}\n{outcome.exception or ''}"
            )
        return outcome

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Rows of a statement on the project's warehouse, as exact Python values.

        Timestamps are datetimes in UTC (those without zone: naive), decimals Decimal, structs and
        maps dict. Any thread may ask; each has a session of its own.
        """
        if not scheme_of(self.env["WAREHOUSE"]):
            self.warehouse.mkdir(parents=True, exist_ok=True)
        frame = own_session(self.credentials()).session.sql(sql)
        if not frame.columns:  # a statement that gives no rows
            return []
        return frame.toArrow().to_pylist(maps_as_pydicts="strict")

    def column(self, sql: str) -> list[Any]:
        """Values of the first column of a statement's rows."""
        return [next(iter(row.values())) for row in self.query(sql)]

    def summary(self, table: str) -> dict[str, str]:
        """Summary of the newest commit of a table (schema.name)."""
        return self.column(
            f"select s.summary from {table}.snapshots s join {table}.refs r "
            "on r.snapshot_id = s.snapshot_id where r.name = 'main'"
        )[0]

    def written_partitions(self, table: str) -> set[str]:
        """Partitions that a table's newest commit changed, as {"day=2026-03-01"}."""
        prefix = "partitions."
        found = self.summary(table)
        return {key.removeprefix(prefix) for key in found if key.startswith(prefix)}

    def command(self, *args: str, vars: dict[str, Any] | None = None) -> list[str]:
        """The command line of a dbt that runs as a process of its own."""
        return [str(Path(sys.executable).parent / "dbt"), *args, *self._options(vars)]

    def subprocess(
        self,
        *args: str,
        vars: dict[str, Any] | None = None,
        env: dict[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run dbt as a process of its own, with a JVM of its own.

        Args:
            args: the command as on the command line.
            vars: the project's --vars.
            env: environment variables over the project's; None takes one away.
            cwd: folder to run in; the project must not mind.
        """
        given = {**os.environ, **self.env, **(env or {})}
        return subprocess.run(
            self.command(*args, vars=vars),
            env={key: value for key, value in given.items() if value is not None},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )

    def credentials(self) -> SparkSessionCredentials:
        """What the project's profile states, read once."""
        if self._credentials is None:
            settings = self.profile_settings()
            settings = {key: value for key, value in settings.items() if key not in NOT_OURS}
            self._credentials = SparkSessionCredentials.from_dict(settings)
            # as the adapter does it: relative paths of the profile count from the project
            self._credentials.project_root = str(self.root)
            with self._environment():
                application(self._credentials)
        return self._credentials

    def profile_settings(self) -> dict[str, Any]:
        """The output of the profile that the project is built with, rendered."""
        raw = yaml.safe_load((self.profiles / "profiles.yml").read_text(encoding="utf-8"))
        project = yaml.safe_load((self.root / "dbt_project.yml").read_text(encoding="utf-8"))
        with self._environment():
            set_invocation_context(dict(os.environ))
            name = project["profile"]
            _, settings = Profile.render_profile(raw[name], name, None, ProfileRenderer({}))
        return settings

    def _options(self, vars: dict[str, Any] | None) -> list[str]:
        options = ["--project-dir", str(self.root), "--profiles-dir", str(self.profiles)]
        return [*options, "--no-use-colors", *(["--vars", yaml.safe_dump(vars)] if vars else [])]

    def _state(self, vars: dict[str, Any] | None) -> tuple[Any, ...]:
        """What dbt parses the project by: its files as they are now, the environment, vars."""
        files = [self.root / "dbt_project.yml", self.profiles / "profiles.yml"]
        files += [
            path for name in PARSED for path in (self.root / name).rglob("*") if path.is_file()
        ]
        found = sorted((str(file), file.stat()) for file in files)
        stats = [(path, stat.st_mtime_ns, stat.st_size) for path, stat in found]
        around = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
        return stats, sorted((around | self.env).items()), yaml.safe_dump(vars)

    def _as_parsed(self, state: Any) -> Manifest | None:
        """What dbt parsed when the project was in this state, as it was before anything ran."""
        if state is None or self._parsed is None or self._parsed[0] != state:
            return None
        manifest = self._parsed[1]
        for node in manifest.nodes.values():
            if getattr(node, "compiled", False) and node.resource_type != "seed":
                node.compiled, node.compiled_code = False, None
                node.extra_ctes_injected, node.extra_ctes = False, []
        return manifest

    @contextlib.contextmanager
    def _parsed_once(self, vars: dict[str, Any] | None) -> Iterator[None]:
        """Within it dbt finds what it parsed before of a project like this, in whatever folder:
        it parses again what is another there, not the macros of its own packages as well.

        A project that was parsed before finds its own. Others find what the first such project
        parsed from nothing: dbt keeps the time at which a YAML file was first parsed, though it was
        edited since, and takes a file of that time for unchanged.
        """
        parsed = self.target / "partial_parse.msgpack"
        settings = (self.root / "dbt_project.yml").read_text(encoding="utf-8")
        profile = (self.profiles / "profiles.yml").read_text(encoding="utf-8")
        key = settings, profile, yaml.safe_dump(vars)
        found = self._own_files.get(key) or _parsed_before.get(key)
        if found is not None:
            self.target.mkdir(parents=True, exist_ok=True)
            parsed.write_bytes(found)
        yield
        if parsed.is_file():
            self._own_files[key] = parsed.read_bytes()
            if found is None:
                _parsed_before[key] = self._own_files[key]
        elif found is not None:  # it was refused
            self._own_files, self._parsed = {}, None
            _parsed_before.pop(key, None)  # another project's refusal may have taken it

    @contextlib.contextmanager
    def _environment(self) -> Iterator[None]:
        """Within it the process has the project's environment variables."""
        with _variables.within(self.env):
            yield


def event_log(folder: Path) -> str:
    """Options of Java, for SPARK_SUBMIT_OPTS: Spark writes all that it does into a folder."""
    settings = {"enabled": "true", "compress": "false", "dir": folder.as_uri()}
    return " ".join(f"-Dspark.eventLog.{name}={value}" for name, value in settings.items())


def _results(result: Any) -> dict[str, NodeResult]:
    found = {}
    for item in getattr(result, "results", None) or []:
        node = getattr(item, "node", None)
        if node is not None:
            found[node.name] = NodeResult(
                status=str(item.status),
                message=item.message or "",
                adapter_response=dict(item.adapter_response or {}),
                failures=item.failures,
            )
    return found
