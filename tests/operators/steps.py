"""What a careless user does, one step at a time; each step's details follow from its number."""

from __future__ import annotations

import gzip
import itertools
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import yaml
from dbt.adapters.sparksession.iceberg.metadata import LostFileError
from dbt.adapters.sparksession.reading.partition_reads import PartitionReads
from pyspark.sql import SparkSession

from tests.operators.arguments import flags, selection, some_vars
from tests.operators.edits import EDITS, MISTAKES
from tests.operators.small_log import FIX, models_of, text_of
from tests.operators.user import GARBAGE, User, WentWrong, cut, lines_in, offsets_in
from tests.support.clocks import put_ahead
from tests.support.killed_runs import kill, start

BROKEN = "the test breaks this statement"
STEPS: dict[str, tuple[int, Callable[[User, Random], None]]] = {}


def step(weight: int) -> Callable:
    def known(function: Callable[[User, Random], None]) -> Callable:
        STEPS[function.__name__] = weight, function
        return function

    return known


def some_steps(random: Random, count: int) -> list[str]:
    """Names and numbers of steps, as ["land:123", ..]."""
    names = list(STEPS)
    weights = [STEPS[name][0] for name in names]
    chosen = random.choices(names, weights, k=count - 2)
    return [f"{name}:{random.randrange(10**6)}" for name in ["land", "build", *chosen]]


def take(user: User, step: str) -> None:
    """Do a step, given as name:number, or one of its details by name, as edit=no cut column."""
    if step.startswith("dbt="):
        # --vars last: by it the project under test knows what it has parsed
        command, _, vars = step.removeprefix("dbt=").partition(" --vars ")
        command = command.replace("STATE", str(user.state))
        user.dbt(*shlex.split(command), vars=yaml.safe_load(vars) if vars else None)
    elif step.startswith("edit="):
        edit(user, Random(0), step.removeprefix("edit="))
    elif step.startswith("operate="):
        name, _, args = step.removeprefix("operate=").partition(" ")
        user.dbt("run-operation", name, "--args", args or "{}")
    else:
        name, _, number = step.partition(":")
        STEPS[name][1](user, Random(int(number)))


# ---- the log ------------------------------------------------------------------------------


@step(8)
def land(user: User, random: Random) -> None:
    user.reported.append(f"{user.land()} messages land")


@step(2)
def land_again(user: User, random: Random) -> None:
    known = user.lines["live"]
    if known:
        start_at = random.randrange(len(known))
        lines = [item for item in known[start_at : start_at + 20] if item not in GARBAGE]
        random.shuffle(lines)
        user.land_beside(lines)
        user.reported.append(f"{len(lines)} messages land again")


@step(2)
def land_garbage(user: User, random: Random) -> None:
    lines = random.choices(GARBAGE, k=random.randint(1, 3))
    user.land_beside(lines)
    user.refused += len(lines)
    user.reported.append(f"{len(lines)} lines land that are no messages")


@step(2)
def correct(user: User, random: Random) -> None:
    if FIX not in user.lines and user.lines["live"]:
        user.reported.append(f"{user.land_fix(random)} messages land as a batch that counts")


@step(2)
def count_batch_or_not(user: User, random: Random) -> None:
    """The batch is named in the var, or isn't any more; its files stay."""
    if FIX in user.lines:
        if user.vars.pop("batches", None) is None:
            user.vars["batches"] = ["live", FIX]
        user.reported.append(f"batches: {user.vars.get('batches', ['live'])}")


@step(3)
def take_file_away(user: User, random: Random) -> None:
    files = [path for path in user.landed_files() if path not in user.hidden]
    if files:
        path = random.choice(files)
        left = cut(path.read_bytes(), random) if random.random() < 0.4 else None
        user.hide(path, left)
        user.reported.append(f"{path.name} is {'cut' if left is not None else 'gone'}")


@step(3)
def put_file_back(user: User, random: Random) -> None:
    if user.hidden:
        path = random.choice(sorted(user.hidden))
        user.put_back(path, as_old=random.random() < 0.5)
        user.reported.append(f"{path.name} is whole again")


@step(2)
def land_otherwise(user: User, random: Random) -> None:
    """A file lies there packed, unpacked or in two parts, in the place of the old or beside it."""
    files = [path for path in user.landed_files() if path not in user.hidden]
    if not files:
        return
    path = random.choice(files)
    content, packed = lines_in(path), path.suffix == ".gz"
    lines = content.splitlines(keepends=True)
    stem, _, first = path.name.partition(".")[0].rpartition("+")
    at = random.randrange(1, len(lines)) if len(lines) > 1 and random.random() < 0.5 else 0
    is_left = random.random() < 0.3
    parts = {0: lines[:at], at: lines[at:]} if at else {0: lines}
    for number, part in parts.items():
        ending = ".jsonl" if packed else ".jsonl.gz"
        other = path.with_name(f"{stem}+{int(first) + number:010d}{ending}")
        text = b"".join(part)
        other.write_bytes(text if packed else gzip.compress(text))
    if not is_left:
        path.unlink()
    user.reported.append(
        f"{path.name} {'is' if is_left else 'was'} there, and in {len(parts)} other files"
    )


@step(1)
def land_another_content(user: User, random: Random) -> None:
    """A file that the warehouse has read gets the lines of another, which no run may take."""
    files = [path for path in user.landed_files() if path not in user.hidden]
    if len(files) < 2 or "ods_binlog" not in tables_and_views(user)[0]:
        return
    path, other = random.sample(files, 2)
    place, held = offsets_in(path), f"partition_number = {path.parent.name.partition('=')[2]}"
    try:
        read = user.project.column(
            f"select count(distinct message_offset) from dw.ods_binlog where batch_id = 'live' and "
            f"{held} and message_offset between {place.start} and {place.stop - 1}"
        )
    except Exception as exc:
        if "NotFoundException" not in str(exc):
            raise
        return  # an old catalog names a file that is gone
    if read == [len(place)] and lines_in(path) != lines_in(other):
        text = lines_in(other)
        user.hide(path, gzip.compress(text) if path.suffix == ".gz" else text)
        user.reported.append(f"{path.name} has the lines of {other.name}")


# ---- commands -----------------------------------------------------------------------------


@step(10)
def run(user: User, random: Random) -> None:
    command = random.choice(("run", "run", "build"))
    args = [*selection(user, random), *flags(user, random, command)]
    user.dbt(command, *args, vars=some_vars(random, command))


@step(7)
def build(user: User, random: Random) -> None:
    outcome = user.dbt("build")
    if outcome.ok and user.is_clean:
        user.compare()


@step(3)
def build_with_flags(user: User, random: Random) -> None:
    user.dbt("build", *flags(user, random, "build"), vars=some_vars(random, "build"))


@step(2)
def check(user: User, random: Random) -> None:
    user.dbt("test", *selection(user, random), *flags(user, random, "test"))


@step(2)
def seed_or_snapshot(user: User, random: Random) -> None:
    command = random.choice(("seed", "snapshot"))
    more = random.choice(
        ([], ["--full-refresh"] if command == "seed" else ["--empty"], ["--threads", "1"])
    )
    user.dbt(command, *more)


@step(2)
def retry(user: User, random: Random) -> None:
    more = random.choice(([], [], ["--full-refresh"], ["--threads", "1"]))
    user.dbt("retry", *more, vars=some_vars(random, "retry"))


@step(3)
def look(user: User, random: Random) -> None:
    """Commands that read."""
    model = random.choice([*models_of(user.project)])
    sql = f"select count(*) from {{{{ ref('{model}') }}}}"
    user.dbt(
        *random.choice(
            (
                ["compile", *selection(user, random)],
                ["show", "--inline", sql],
                ["show", "--select", model, "--limit", "1"],
                ["list", *selection(user, random)],
                ["parse"],
                ["source", "freshness"],
                ["docs", "generate", *random.choice(([], ["--no-compile"], ["--empty-catalog"]))],
                ["debug"],
                ["clean"],
                ["deps"],
                ["test", "--select", "source:*"],
                ["show", "--inline", sql, "--limit", "0"],
                ["list", "--selector", "no_such_selector"],
                ["clone", "--state", str(user.state)],
            )
        )
    )


@step(5)
def do_as_asked(user: User, random: Random) -> None:
    """What the last refusal asked for, though something else may have to be put right first."""
    if user.refused_last is not None:
        outcome, given = user.refused_last
        user.do_what_it_asks(outcome, random, given)


@step(1)
def save_state(user: User, random: Random) -> None:
    """Keep the manifest for --state."""
    user.dbt("parse", "--write-json")
    user.state.mkdir(exist_ok=True)
    for name in ("manifest.json", "run_results.json"):
        path = user.project.target / name
        if path.is_file():
            (user.state / name).write_bytes(path.read_bytes())


# ---- the project --------------------------------------------------------------------------


@step(13)
def edit(user: User, random: Random, name: str | None = None) -> None:
    """An edit and a command with it; a mistake is taken back then, anything else stays for long."""
    if name is None:
        known = [edit for edit in EDITS if edit not in MISTAKES]
        name = random.choice(sorted(MISTAKES) if random.random() < 0.25 else known)
    files = EDITS[name](user, random)
    before = {file: user.edits.get(file, "") for file in files}
    for file, text in files.items():
        user.edit(file, text)
    user.reported.append(f"edit: {name}" if files else f"no edit: {name}")
    if files and random.random() < 0.8:
        random.choice((run, run, build, build_with_flags, look))(user, random)
    if name in MISTAKES and not any(before.values()):
        for file in files:
            user.undo(file)
        user.reported.append("the mistake is mended")


@step(7)
def edit_back(user: User, random: Random) -> None:
    if user.edits:
        for name in list(user.edits):
            user.undo(name)
        user.reported.append("all edits are taken back")


@step(2)
def change_seed(user: User, random: Random) -> None:
    """A seed that has other rows from now on."""
    name = "seeds/statuses.csv"
    rows = dict(line.split(",") for line in text_of(user.project, name).splitlines()[1:])
    status = random.choice([*rows, "", "closed ", "lost"])
    if status in rows and random.random() < 0.3 and len(rows) > 1:
        del rows[status]
    elif status.strip():
        rows[status] = random.choice(("new", "running", "ended", "é'\"{{x}}"))
    text = "status,label\n" + "".join(f"{row},{label}\n" for row, label in rows.items())
    (user.project.root / name).write_text(text, encoding="utf-8")
    user.reported.append(f"the seed states {rows}")


# ---- faults -------------------------------------------------------------------------------


@contextmanager
def broken_statement(number: int, is_done: bool) -> Iterator[None]:
    """Within it one of the statements fails, before or after it was done."""
    count, lock, original = itertools.count(1), threading.Lock(), SparkSession.sql

    def sql(self: SparkSession, *args: Any, **options: Any) -> Any:
        with lock:
            fails = next(count) == number
        if fails and not is_done:
            raise RuntimeError(BROKEN)
        frame = original(self, *args, **options)
        if fails:
            raise RuntimeError(BROKEN)
        return frame

    SparkSession.sql = sql
    try:
        yield
    finally:
        SparkSession.sql = original


@step(7)
def break_a_run(user: User, random: Random) -> None:
    if random.random() < 0.5:
        user.reported.append(f"{user.land()} messages land")
    number, is_done = int(10 ** random.uniform(0.7, 2.4)), random.random() < 0.5
    command = random.choice((["build"], ["run"], ["build", "--full-refresh"]))
    if random.random() < 0.5:
        command.append("--write-json")  # which `dbt retry` reads
    with broken_statement(number, is_done):
        user.dbt(*command, expect=BROKEN)
    user.reported.append(f"    statement {number} was broken, {'done' if is_done else 'not done'}")


@step(1)
def kill_a_run(user: User, random: Random) -> None:
    """A run as a process of its own, ended without a warning; tried where there is time for it."""
    user.reported.append(f"{user.land()} messages land")
    log = user.folder / "killed.log"
    process: subprocess.Popen = start(user.project, log)
    time.sleep(random.uniform(8, 40))
    kill(process, with_java=random.random() < 0.5)
    user.reported.append("a build is killed")


# ---- the warehouse ------------------------------------------------------------------------


@step(8)
def operate(user: User, random: Random) -> None:
    version = random.randint(1, 9)
    operations: list[tuple[str, dict[str, Any]]] = [
        ("compact", {}),
        ("compact", {"merge_runs": True}),
        ("compact", {"select": "order_newest", "merge_runs": True}),
        ("expire_versions", {"keep": random.randint(1, 3), "days": 0}),
        ("remove_orphans", {}),
        ("roll_back", {"version": version}),
        ("drop_candidate", {}),
        ("publish_candidate", {}),
        ("keep_version", {"version": version, "tag": "paid"}),
        ("keep_version", {"version": version}),
        ("keep_version", {}),
        ("roll_back", {}),
        ("expire_versions", {"keep": 0}),
        ("compact", {"select": "no_such_model"}),
        ("compact", {"merge_runs": "no"}),
        ("diff_built", {"schema": "x"}),
        ("drop_built", {"schema": random.choice(("x", "dw", "published", ""))}),
        ("list_versions", {}),
        ("diff_versions", {"first": version, "last": version + 1}),
        ("publish_to", {}),
        ("register_tables", {}),
        ("no_such_operation", {}),
    ]
    name, args = random.choice(operations)
    if name in ("expire_versions", "remove_orphans"):
        user.backups.clear()  # what they need may be gone
    user.dbt("run-operation", name, "--args", str(args))


def tables_and_views(user: User) -> tuple[set[str], set[str]]:
    """Names of the tables and of the views; none where the catalog is lost."""
    rows = user.project.query("show namespaces")
    if "dw" not in {next(iter(row.values())) for row in rows}:
        return set(), set()
    views = {row["viewName"] for row in user.project.query("show views in dw")}
    tables = {row["tableName"] for row in user.project.query("show tables in dw")}
    return tables - views, views


@step(2)
def drop_by_hand(user: User, random: Random) -> None:
    """A table or view is dropped by a statement of the user's own."""
    tables, views = tables_and_views(user)
    if not tables | views:
        return
    name = random.choice(sorted(tables | views))
    try:
        user.project.query(f"drop {'view' if name in views else 'table'} dw.{name}")
    except Exception as exc:
        if "NotFoundException" not in str(exc):
            raise
        return  # an old catalog names a file that is gone
    user.reported.append(f"dw.{name} is dropped")


@step(1)
def build_without_landing(user: User, random: Random) -> None:
    """LANDING names a folder that isn't there."""
    aside = user.landing.rename(user.folder / "landing_aside")
    user.dbt("build")
    if user.landing.exists():  # nothing of it may have been made
        raise WentWrong("the run made the landing folder")
    aside.rename(user.landing)


@step(1)
def forget_target(user: User, random: Random) -> None:
    """dbt's folder of what it parsed and did last is deleted."""
    shutil.rmtree(user.project.target, ignore_errors=True)
    user.reported.append("target is deleted")


@step(3)
def back_up(user: User, random: Random) -> None:
    if (user.project.warehouse / "catalog.db").is_file():
        user.reported.append(f"{user.back_up().name} is made")


@step(3)
def restore(user: User, random: Random) -> None:
    if user.backups:
        folder = random.choice(user.backups)
        user.restore(folder)
        user.reported.append(f"{folder.name} is restored")


@step(1)
def lose_catalog(user: User, random: Random) -> None:
    """The catalog is lost, or an old one stands beside newer tables."""
    if not (user.project.warehouse / "catalog.db").is_file():
        return
    if user.backups and random.random() < 0.5:
        folder = random.choice(user.backups)
        user.restore_catalog(folder)
        user.reported.append(f"the catalog alone is {folder.name}'s")
    else:
        user.lose_catalog()
        user.reported.append("the catalog is lost")


@step(1)
def go_on_in_a_copy(user: User, random: Random) -> None:
    folder = user.folder / f"copy_{random.randrange(10**6)}"
    copied = user.dbt("run-operation", "copy_warehouse", "--args", f"{{to: '{folder}/warehouse'}}")
    if copied.ok:
        user.go_to(folder / "warehouse")
        user.reported.append(f"{folder.name} is gone on in")


@step(2)
def move_clock(user: User, random: Random) -> None:
    """The clock of what goes by the day, or a table's commits, dated a day ahead."""
    tables = tables_and_views(user)[0] if random.random() < 0.5 else set()
    if tables:
        name = random.choice(sorted(tables))
        try:
            put_ahead(user.project, f"dw.{name}")
        except LostFileError:  # an old catalog
            return
        user.reported.append(f"dw.{name} was written by a clock that is a day ahead")
        return
    user.clock = random.choice((-3000, -2900, 0, 40, 400)) if not user.clock else 0
    user.reported.append(f"the clock is {user.clock} days ahead")


@contextmanager
def moved_clock(user: User) -> Iterator[None]:
    """Within it the adapter's day is the user's."""
    from datetime import timedelta

    original = PartitionReads._today
    PartitionReads._today = lambda self, zone: original(self, zone) + timedelta(days=user.clock)
    try:
        yield
    finally:
        PartitionReads._today = original
