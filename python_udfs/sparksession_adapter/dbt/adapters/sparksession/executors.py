"""What a run needs of a Spark outside of its process, asked before anything is built.

A cluster without a free worker waits for ever, a worker without Python, its modules or the
warehouse's folder ends in a Java stack in the middle of a run, or writes files that nobody else
sees. So a run on a cluster or on a Spark Connect server first has one small job look at all of it
from there.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

LOCAL, CONNECT, CLUSTER = "local", "connect", "cluster"
PLACES = (LOCAL, CONNECT, CLUSTER)
ANSWER_SECONDS = 10.0  # until a master or a server has to answer
LOOK_SECONDS = 120.0  # that the job may take once there is an executor
MOST_TASKS = 64
CONNECT_PORT, MASTER_PORT = 15002, 7077
NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
OTHER_PYTHON = re.compile(
    r"PYTHON_VERSION_MISMATCH\]?\s*Python in worker has different version:? (\S+) than"
)
NO_MODULE = re.compile(r"No module named '([\w.]+)'|ModuleNotFoundError: (\S+)")
NO_CLASS = ("Cannot find catalog plugin class", "CATALOG_NOT_FOUND", "ClassNotFoundException")


class PlaceError(DbtRuntimeError):
    """The Spark outside of this process can't be used; the message names what it lacks."""


def is_local(master: str) -> bool:
    """Whether a master is a Spark in this process.

    >>> is_local("local[*]"), is_local("spark://host:7077")
    (True, False)
    """
    return master == "local" or master.startswith("local[")


def check_place(place: str, master: str, remote: str | None) -> None:
    """
    Args:
        place: `runs_on` of the profile.
        master: spark.master, "" where it isn't set.
        remote: SPARK_REMOTE; None where it isn't set.

    Raises:
        PlaceError: they don't fit, or nothing answers there.
    """
    if place not in PLACES:
        raise PlaceError(f"runs_on of the profile must be one of {', '.join(PLACES)}, got {place}.")
    if place == CONNECT and not remote:
        raise PlaceError(
            "DBT_TARGET=connect needs the address of a Spark Connect server: set "
            "SPARK_REMOTE=sc://host:15002."
        )
    if place == CLUSTER and (not master or is_local(master)):
        raise PlaceError(
            "DBT_TARGET=cluster needs the address of a cluster: set SPARK_MASTER=spark://host:7077 "
            f"(or k8s://.., yarn), got {master or 'nothing'}."
        )
    if remote:
        host, port = address(remote, CONNECT_PORT)
        if not _answers(host, port):
            raise PlaceError(
                f"No Spark Connect server answers at {host}:{port} (SPARK_REMOTE): start it, or "
                "set the right address."
            )
    elif master.startswith("spark://"):
        masters = [address(part, MASTER_PORT) for part in master.split(",")]
        if not any(_answers(*host) for host in masters):
            named = ", ".join(f"{host}:{port}" for host, port in masters)
            raise PlaceError(
                f"No Spark master answers at {named} (SPARK_MASTER): start it, or set the right "
                "address."
            )


def address(url: str, port: int) -> tuple[str, int]:
    """Host and port of an address.

    Args:
        port: where the address has none.

    >>> address("sc://spark:15003/;token=a", 15002), address("spark://[::1]", 7077)
    (('spark', 15003), ('::1', 7077))
    """
    place = url.partition("://")[2] or url
    found = re.fullmatch(r"(\[[^\]]*\]|[^:/;]*)(?::(\d+))?.*", place)
    host = found[1].strip("[]") if found else place
    return host, int(found[2]) if found and found[2] else port


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def no_executor(seconds: float, settings: Mapping[str, str]) -> PlaceError:
    """No executor has come."""
    wanted = ", ".join(
        f"{name} {settings[key]}"
        for name, key in (
            ("memory", "spark.executor.memory"),
            ("cores", "spark.executor.cores"),
            ("image", "spark.kubernetes.container.image"),
        )
        if key in settings
    )
    driver = settings.get("spark.driver.host") or socket.gethostname()
    return PlaceError(
        f"No executor has come within {seconds:.0f} s from {settings.get('spark.master')}"
        f"{f' ({wanted})' if wanted else ''}: it needs a worker of the same Spark version with "
        f"that much to spare which reaches this driver at {driver} (SPARK_DRIVER_HOST)."
    )


def check_version(there: str, here: str) -> None:
    """
    Args:
        there, here: versions of the server's Spark and of this pyspark.

    Raises:
        PlaceError: they differ in more than the last number.
    """
    if there.split(".")[:2] != here.split(".")[:2]:
        raise PlaceError(
            f"The Spark Connect server runs Spark {there}, and this project pyspark {here}: take a "
            f"server of Spark {'.'.join(here.split('.')[:2])}."
        )


def check_server(session: Any, settings: Mapping[str, str], catalog: str, jars: str) -> None:
    """Check that a Spark Connect server can read and write the project's tables.

    Args:
        session: of the server.
        settings: the project's.
        catalog: name of the project's catalog.
        jars: coordinates that the project needs.

    Raises:
        PlaceError: it lacks a jar or the SQL extensions.
    """
    given = session.conf.get("spark.sql.extensions", "") or ""
    missing = set(settings["spark.sql.extensions"].split(",")) - set(given.split(","))
    if missing:
        raise PlaceError(
            "The Spark Connect server was started without Iceberg's SQL extensions: start it with "
            f"--packages {jars} --conf spark.sql.extensions={settings['spark.sql.extensions']}."
        )
    for key, value in settings.items():
        if key.startswith(f"spark.sql.catalog.{catalog}"):
            session.conf.set(key, value)
    try:
        session.sql(f"show namespaces in {catalog}").collect()
    except Exception as exc:
        text = str(exc)
        if any(name in text for name in NO_CLASS) or "No suitable driver" in text:
            raise PlaceError(
                "The Spark Connect server lacks jars that the project's tables need: start it with "
                f"--packages {jars}."
            ) from exc
        raise


@contextmanager
def _probe_files(folders: Sequence[str], read: Sequence[str]) -> Iterator[dict[str, str | None]]:
    """Path -> text of files that executors have to see too; None where only being there counts.

    Args:
        folders: where this process writes a file of its own.
        read: where it takes the first entry that is there.
    """
    made: dict[str, str | None] = {}
    seen: dict[str, str | None] = {}
    try:
        for folder in folders:
            path = os.path.join(folder, f".probe-{secrets.token_hex(8)}")
            os.makedirs(folder, exist_ok=True)
            made[path] = secrets.token_hex(8)
            with open(path, "w", encoding="utf-8") as file:
                file.write(str(made[path]))
        for folder in read:
            with suppress(OSError):
                seen |= {
                    os.path.join(folder, name): None for name in sorted(os.listdir(folder))[:1]
                }
        yield made | seen
    finally:
        for path in made:
            with suppress(FileNotFoundError):
                os.remove(path)


def _look(files: dict[str, str | None]) -> Callable[[int], str]:
    """What executors run: which files they don't see as the driver does, and what else they lack.

    It travels by value, and uses nothing but Python's own modules.
    """

    def look(_: int) -> str:
        import importlib
        import json
        import os
        import socket

        missing = []
        for path, text in files.items():
            try:
                if text is None:
                    seen = os.path.lexists(path)
                else:
                    with open(path, encoding="utf-8") as file:
                        seen = file.read() == text
            except OSError:
                seen = False
            if not seen:
                missing.append(os.path.dirname(path))
        lacked = []
        for module in ("pyarrow", "numpy"):
            try:
                importlib.import_module(module)
            except ImportError:
                lacked.append(module)
        return json.dumps({"host": socket.gethostname(), "missing": missing, "lacked": lacked})

    return look


def python_problem(text: str) -> str | None:
    """The sentence for an error of the executors' Python; None of another error.

    >>> python_problem('Cannot run program "/opt/py": error=2, No such file')[:38]
    'The executors have no Python at /opt/p'
    """
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    wanted = (
        f"set PYSPARK_PYTHON to the path that a Python {own} with pyarrow and numpy has there (for "
        "a Spark Connect server where that is started)."
    )
    program, other = NO_PROGRAM.search(text), OTHER_PYTHON.search(text)
    module = NO_MODULE.search(text)
    if program:
        return f"The executors have no Python at {program[1]}: {wanted}"
    if other:
        return f"The executors' Python is {other[1].rstrip(',')}, this process has {own}: {wanted}"
    if module:
        name = module[1] or module[2]
        return f"The executors' Python lacks the module {name}: {wanted}"
    return None


def look_from_executors(
    session: Any,
    settings: Mapping[str, str],
    seconds: float,
    folders: Sequence[str],
    read: Sequence[str],
) -> None:
    """Have a job look whether executors have what the project needs.

    Args:
        session: any session of the application, or of the Spark Connect server.
        settings: the application's.
        seconds: that executors may take to come.
        folders: local folders that executors and this process write and read.
        read: local folders that executors read.

    Raises:
        PlaceError: they lack something, or none came.
    """
    from pyspark.sql import functions as F

    context = getattr(session, "_sc", None)  # Spark Connect has none
    tasks = min(MOST_TASKS, 2 * context.defaultParallelism) if context is not None else 4
    answers: list[str] = []
    errors: list[BaseException] = []

    with _probe_files(folders, read) as files:
        look = F.udf(_look(files), "string", useArrow=False)

        def ask() -> None:
            try:
                frame = session.range(0, tasks, 1, tasks).select(look("id").alias("seen"))
                answers.extend(row.seen for row in frame.collect())
            except BaseException as exc:
                errors.append(exc)

        thread = threading.Thread(target=ask, name="look", daemon=True)
        begun = time.monotonic()
        thread.start()
        while thread.is_alive() and time.monotonic() - begun < seconds and _executors(context) == 0:
            thread.join(0.2)
        if thread.is_alive() and _executors(context) == 0:
            raise no_executor(seconds, settings)
        within = LOOK_SECONDS if context is not None else 2 * seconds
        thread.join(within)
        if thread.is_alive():
            raise PlaceError(
                f"The executors have not answered a small job within {within:.0f} s: they "
                "are busy, or don't come; see the cluster's own pages."
            )
    if errors:
        text = str(errors[0])
        problem = python_problem(text)
        if problem is None and "SparkContext was shut down" in text:
            raise no_executor(seconds, settings) from errors[0]
        if problem is None:
            raise errors[0]
        raise PlaceError(problem) from errors[0]
    _judge([json.loads(answer) for answer in answers])


def _judge(answers: Sequence[Mapping[str, Any]]) -> None:
    """
    Raises:
        PlaceError: an executor lacks a module, or doesn't see a folder.
    """
    for answer in answers:
        for module in answer["lacked"]:
            problem = python_problem(f"No module named '{module}'")
            raise PlaceError(f"{problem} Host: {answer['host']}.")
        if answer["missing"]:
            raise PlaceError(
                f"The executor on {answer['host']} doesn't see {', '.join(answer['missing'])} "
                "as this process does: executors need the same folder under the same path (a "
                "shared file system, readable for their user), or WAREHOUSE and LANDING where all "
                "of them reach it."
            )


def _executors(context: Any) -> int | None:
    """How many executors there are beside the driver; None where that can't be asked."""
    if context is None:
        return None
    try:
        return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
    except Exception:  # the application has ended
        return None
