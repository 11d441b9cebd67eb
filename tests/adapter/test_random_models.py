"""Whatever an analyst writes: after each run a model holds what a full refresh would give it."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress

import pytest
from dbt.adapters.sparksession.reading.view_marks import statement_of

from tests.support.random_models import BUILT, KEPT_ROW, Model
from tests.support.random_warehouses import ACCEPTED, RandomWarehouse, statements


def rows_of_all(project, relations: Sequence[str]) -> list[Counter]:
    """The rows of several relations, asked for in one query: to plan and start a query takes most
    of its time."""
    parts = (
        f"select {place} as place, id, day, cast(v as bigint) as v from {sql}"
        for place, sql in enumerate(relations)
    )
    found: list[Counter] = [Counter() for _ in relations]
    for row in project.query(" union all ".join(parts)) if relations else ():
        place, *values = row.values()
        found[place][tuple(values)] += 1
    return found


class Tried:
    """A random project that is built again and again while its tables and models change.

    Attributes:
        compared: how many tables were compared.
        refused: how many models refused to be built.
    """

    def __init__(self, make_project, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.models = RandomWarehouse(self.rng)
        self.project = make_project(self.models.files())
        self.compared = self.refused = 0
        self.done: list[str] = []
        self.project.query("create namespace if not exists src")
        self.project.query(
            "create table src.events (id int, day date, v int) using iceberg partitioned by (day) "
            "tblproperties ('write.summary.partition-limit' = '100')"
        )
        self.project.query("create table src.rates (rate int) using iceberg")
        self.project.query(f"insert into src.events values (1, date '2026-03-01', 1), {KEPT_ROW}")
        self.project.query("insert into src.rates values (2)")
        if self.models.needs_build:
            self._command("build", expect_ok=True)

    def step(self) -> None:
        """Let something happen, run some models perhaps, then all; compare each time."""
        rng, models, project = self.rng, self.models, self.project
        self.done = []
        for statement in statements(rng):
            self._happens(statement)
        if rng.random() < 0.2:
            self.done.append(models.edit())
            project.write(models.files())
        if rng.random() < 0.15 and (edited := models.edit_kind()) is not None:
            self.done.append(edited)
            project.write(models.files())
        if rng.random() < 0.5 and (name := models.bring_back()) is not None:
            self.done.append(f"{name} is back")
            project.write(models.files())
        if rng.random() < 0.15 and (gone := models.take_away()) is not None:
            self.done.append(f"{gone} is away")
            (project.root / gone).unlink()
            project.write(models.files())
        if rng.random() < 0.3 and models.edit_seed():
            project.write(models.files())
            self.done.append("seed")
            self._command("seed", expect_ok=True)
        if rng.random() < 0.3:
            here = [name for first, name in models.names.items() if first not in models.away]
            chosen = rng.choice(here)
            selected = rng.choice(("{}", "+{}", "{}+")).format(chosen)
            command = [rng.choice(("run", "run", "build"))]
            command += [rng.choice(("--select", "--select", "--select", "--exclude")), selected]
            command += rng.choice(((), (), (), ("--full-refresh",)))
            self.done.append(" ".join(command))
            outcome = self._command(*command)
            built = {name for name, result in outcome.results.items() if result.status == "success"}
            self._compare(built, with_python=False)
        if rng.random() < 0.2:
            gone = models.rename_one()
            if gone is not None:
                (project.root / gone).unlink(missing_ok=True)
                project.write(models.files())
                self.done.append(f"rename {gone}")
        command = rng.choice(("run", "build"))
        self.done.append(command)
        kept = ("--store-failures",) if command == "build" and rng.random() < 0.2 else ()
        outcome = self._command(command, *kept)
        refused = {
            name: _why(name, result.message, outcome.log)
            for name, result in outcome.results.items()
            if result.status == "error"
        }
        for name, message in refused.items():
            assert "--full-refresh" in message, f"{self._when()}: {name}: {message}"
        if refused:
            self.refused += len(refused)
            outcome = self._command(command, "--full-refresh", expect_ok=True)
        self._compare_tests(outcome)
        self._compare(self._names_after(command), with_python=True)
        if command == "build":
            self._compare_published()

    def _names_after(self, command: str) -> set[str]:
        """Names of what a command over the whole project has made."""
        return {
            self.models.names[model.name]
            for model in self.models.models
            if (command == "build" or model.kind not in BUILT)
            and model.name not in self.models.away
        }

    def _happens(self, statement: str) -> None:
        """Let a statement change the tables."""
        if statement == "rollback":
            parents = self.project.column(
                "select s.parent_id from src.events.snapshots s join src.events.refs r "
                "on r.snapshot_id = s.snapshot_id where r.name = 'main'"
            )
            statement = f"call lake.system.rollback_to_snapshot('src.events', {parents[0]})"
        self.done.append(statement)
        may_fail = "rollback" in statement or "partition field" in statement
        with suppress(Exception) if may_fail else nullcontext():
            self.project.query(statement)

    def _compare_tests(self, outcome) -> None:
        """Data tests have found what is there."""
        asked: dict[str, str] = {}  # test -> a query of how many failures there are
        stated: dict[str, int | None] = {}
        for result in outcome.raw.results:
            test = getattr(result.node, "test_metadata", None)
            if test is None or str(result.status) not in ("pass", "warn"):
                continue
            column, (tested,) = result.node.column_name, result.node.depends_on.nodes
            table = f"dw.{tested.split('.')[2]}"
            asked[result.node.name] = {
                "not_null": f"select count(*) as v from {table} where {column} is null",
                "unique": f"select count(*) as v from (select {column} from {table} "
                f"where {column} is not null group by {column} having count(*) > 1)",
                "accepted_values": f"select count(distinct {column}) as v from {table} "
                f"where {column} not in ({', '.join(map(str, ACCEPTED))})",
            }[test.name]
            stated[result.node.name] = result.failures
        counts = [f"(select 0 as id, null as day, v from ({sql}))" for sql in asked.values()]
        for name, rows in zip(asked, rows_of_all(self.project, counts), strict=True):
            assert rows == {(0, None, stated[name]): 1}, (
                f"{self._when()}: {name} found {stated[name]}, {asked[name]}\n{self.models.files()}"
            )

    def _command(self, *args: str, expect_ok: bool | None = None):
        outcome = self.project.run(*args, vars=self.models.vars, expect_ok=expect_ok)
        assert outcome.exception is None, f"{self._when()}: {outcome.exception}"
        return outcome

    def _when(self) -> str:
        return f"seed {self.seed}, after {self.done}"

    def _compare(self, names: Collection[str], with_python: bool) -> None:
        """Compare what models hold with what their SQL gives over all rows of their inputs."""
        if not names:
            return
        compile_these = ("compile", "--full-refresh", "--select", *sorted(names))
        done = self._command(*compile_these, expect_ok=True).raw.results
        compiled = {item.node.name: item.node.compiled_code for item in done}
        sides: dict[str, tuple[str, str]] = {}
        for model in self.models.models:
            name = self.models.names[model.name]
            if name not in names or model.kind == "ephemeral":
                continue
            if not model.twin:
                sides[name] = _sides(name, model, f"({statement_of(compiled[name])})")
            elif with_python or not model.is_python:  # its twin reads views as they are stored
                sides[name] = _sides(name, model, f"({self.models.twin(model)})")
        found = iter(rows_of_all(self.project, [side for pair in sides.values() for side in pair]))
        for name, held, full in zip(sides, found, found, strict=True):
            assert held == full, (
                f"{self._when()}: {name} has {held - full} too much and lacks {full - held}\n"
                f"{self.models.files()}"
            )
        self.compared += len(sides)

    def _compare_published(self) -> None:
        """After a build of all models the published tables are what was built."""
        names = [
            self.models.names[model.name]
            for model in self.models.models
            if model.kind != "ephemeral" and model.name not in self.models.away
        ]
        both = [f"{schema}.{name}" for name in names for schema in ("dw", "published")]
        found = iter(rows_of_all(self.project, both))
        for name, held, published in zip(names, found, found, strict=True):
            assert published == held, f"{self._when()}: published.{name}\n{self.models.files()}"


def _sides(name: str, model: Model, wanted: str) -> tuple[str, str]:
    """What a model holds, and what it should hold, made alike where its kind needs that.

    Args:
        wanted: its query over all rows.
    """
    stored, signed = f"dw.{name}", "if(row_kind in ('-U', '-D'), -{0}, {0})"
    if model.kind == "summed":
        value = signed.format("v")
        wanted = f"(select id, day, sum({value}) as v from {wanted} group by id, day)"
    if model.kind in ("latest", "folded_changes"):
        best = f"select id, max(struct(day, v)) as best from {wanted} group by id"
        wanted = f"(select id, best.day, best.v from ({best}))"
    if model.kind == "zipped":
        stored = f"(select id, cast(valid_from as date) as day, w as v from {stored})"
        wanted = (
            "(select id, day, v from (select *, lag(v) over (partition by id order by day) "
            f"as v_before from (select id, day, max(v) as v from {wanted} group by id, day)) "
            "where v_before is distinct from v)"
        )
    if model.kind in ("changes", "python_changes"):  # as many copies as are left
        left = "(select id, day, v, sum(sign) as copies from {} group by id, day, v)"
        left += " lateral view explode(sequence(1, copies)) as copy"
        stored, wanted = (f"{left.format(item)} where copies > 0" for item in (stored, wanted))
        stored, wanted = (text.replace("copies))", "abs(copies)))") for text in (stored, wanted))
    if model.kind == "overwritten":  # a day that is gone stays
        stored = f"(select * from {stored} where day in (select day from {wanted}))"
        wanted = f"(select * from {wanted} where day is not null)"
    if model.kind == "snapshot":
        stored += " where dbt_valid_to is null"
    if model.kind == "summed":  # a key of which nothing is left stays with a sum of 0
        stored, wanted = (f"{item} where v is distinct from 0" for item in (stored, wanted))
    return stored, wanted


def _why(name: str, message: str, log: str) -> str:
    """Why a model failed; of one that is run in batches dbt has it in its log alone."""
    if message != "ERROR":
        return message
    return "\n".join(line for line in log.splitlines() if line.lstrip().startswith(f"{name} ("))


def check_projects(make_project, seeds: range, runs: int) -> None:
    compared = refused = 0
    for seed in seeds:
        tried = Tried(make_project, seed)
        for _ in range(runs):
            tried.step()
        print(f"seed {seed}: {tried.compared} tables compared, {tried.refused} refusals")
        compared += tried.compared
        refused += tried.refused
    print(f"{compared} tables compared, 0 differ; {refused} models refused to be built")
    assert compared > refused, f"seeds {seeds}: {compared} compared, {refused} refusals"


@pytest.mark.in_turn
def test_random_models_hold_what_a_full_refresh_gives(make_project) -> None:
    first = int(os.environ.get("MODELS_SEED", "18"))  # the soak has the others
    projects = int(os.environ.get("MODELS_PROJECTS", "2"))
    runs = int(os.environ.get("MODELS_RUNS", "4"))
    check_projects(make_project, range(first, first + projects), runs)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, int(os.environ.get("MODELS_SOAK", "1000")), 50))
def test_a_thousand_projects_of_random_models(make_project, first: int) -> None:
    check_projects(make_project, range(first, first + 50), runs=10)
