"""Start of Spark: which Java, which jars, where its log goes; one session for each dbt thread."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.executors import (
    check_place,
    check_server,
    check_version,
    is_local,
    look_from_executors,
    no_executor,
)
from dbt.adapters.sparksession.jars import JarError, verified_jars
from dbt.adapters.sparksession.java import (
    archive_options,
    class_path,
    find_java,
    on_class_path,
)
from dbt.adapters.sparksession.java_process import java_ended, last_lines, note_error
from dbt.adapters.sparksession.local_files import set_permissions_in_java
from dbt.adapters.sparksession.null_safe_filters import add_null_safe_filters
from dbt.adapters.sparksession.private_files import keep_private
from dbt.adapters.sparksession.secrets import (
    hide,
    is_secret,
    redacted,
    secrets_of_settings,
    secrets_of_url,
)
from dbt.adapters.sparksession.stop_signals import ctrl_c_as_it_is
from dbt.adapters.sparksession.unstorable import unstorable_columns
from dbt.adapters.sparksession.wordless_errors import words_for
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JNetworkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# pyspark prints every SQL error's whole Java stack to stderr through these
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

CHECKPOINTS = "spark.checkpoint.dir"
CHECKPOINTS_STAY = 7 * 24 * 3600  # seconds; no run takes longer

_lock = threading.RLock()  # a lease may end while its thread holds it
_application: SparkSession | None = None
_opening = threading.Lock()  # of catalogs
# another process has just made the table or column of a new catalog
MADE_MEANWHILE = re.compile(r"(?i)\b(duplicate column|already exists)\b")
_own = threading.local()
own_remote_sessions: dict[str, Any] = {}  # of this process on a Spark Connect server, by id


@contextmanager
def _stderr_to(path: str | None) -> Iterator[None]:
    """Within it file descriptor 2 is `path`: the JVM, started inside, keeps it for its life."""
    if path is None:
        yield
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


class SettingError(DbtRuntimeError):
    """A setting of Spark has a value that Spark doesn't take."""


def _check_values(jvm: Any, settings: dict[str, str]) -> None:
    """Let Spark look at the values of its settings of SQL before a session has them: a session with
    a wrong value never answers, since PySpark asks the session's settings how an error is shown.

    Raises:
        SettingError: Spark doesn't take a value.
    """
    held = getattr(jvm, "org.apache.spark.sql.internal.SQLConf")()
    for name, value in settings.items():
        if not name.startswith("spark.sql."):
            continue
        try:
            held.setConfString(name, str(value))
        except Exception as exc:
            raise SettingError(
                f"The profile sets {name} to {redacted(repr(value))}, which Spark doesn't take: "
                f"{redacted(message_of(exc))}"
            ) from exc


# of the JVM, used at every function of a column. py4j asks for a name each time again, and looks in
# every jar for a name outside of the packages that it knows, for each part of `org.apache...` too:
# a tenth of the work of building small tables
_MUCH_USED = ("org.apache.spark.sql.functions", "functions", "PythonUtils", "PythonSQLUtils")
_PACKAGES = ("org", "java", "scala", "com")


def _look_up_once(jvm: Any) -> None:
    """Keep the much used names of the JVM, all packages and classes below _PACKAGES, and the static
    methods of these, where py4j looks first."""
    from py4j.java_gateway import JavaClass, JavaMember, JavaPackage

    class KnownClass(JavaClass):
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if isinstance(found, JavaMember):
                setattr(self, name, found)
            return found

    class KnownPackage(JavaPackage):
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if isinstance(found, JavaPackage):
                found = KnownPackage(found._fqn, found._gateway_client, found._jvm_id)
            elif isinstance(found, JavaClass):
                found = known(found)
            setattr(self, name, found)
            return found

    def known(java_class: Any) -> Any:
        return KnownClass(java_class._fqn, java_class._gateway_client)

    for name in _PACKAGES:
        setattr(jvm, name, KnownPackage(name, jvm._gateway_client, jvm._id))
    for name in _MUCH_USED:
        setattr(jvm, name, known(getattr(jvm, name)))
    package = jvm.py4j  # asked of each object that comes back, whether it is an array or the like
    package.reflection = package.reflection
    package.reflection.TypeUtil = known(package.reflection.TypeUtil)
    jvm.py4j = package


def _start(credentials: Any) -> SparkSession:
    """Start the process's one Spark application."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # else workers take whatever python3 is on the PATH
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = credentials.spark_settings()
    remote, master = os.environ.get("SPARK_REMOTE"), settings["spark.master"]
    remote = remote if remote and not remote.startswith("local") else None
    check_place(credentials.runs_on, master, remote)
    if remote:
        session = SparkSession.builder.remote(remote).getOrCreate()
        _check_remote(session, credentials, settings)
        return session
    folder = credentials.folder()
    if folder is not None:  # tools start Spark without dbt, too
        keep_private(folder)
    os.environ["JAVA_HOME"] = find_java()
    of_java = "spark.driver.extraJavaOptions"
    settings[of_java] = f"{archive_options()} {settings.get(of_java, '')}".strip()
    _, _, files = credentials.jars()
    given = settings.pop("spark.jars", None)
    for folder in ("spark.local.dir", "spark.sql.warehouse.dir"):
        os.makedirs(settings[folder], exist_ok=True)
    os.makedirs(os.path.join(settings["spark.local.dir"], "tmp"), exist_ok=True)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    # what stands on Java's command line every user of the machine can read: secrets go to it later
    of_urls = {key: secrets_of_url(str(value)) for key, value in settings.items()}
    shown = {key: value for key, value in settings.items() if not (is_secret(key) or of_urls[key])}
    hide(*secrets_of_settings(settings), *chain.from_iterable(of_urls.values()))
    log = None if credentials.verbose else credentials.path("logs/spark.log")
    try:
        with _stderr_to(log):
            jars = [*verified_jars(credentials, settings), *files]
            own_path = class_path(jars) if is_local(master) and not given else None
            if own_path is None and (jars or given):
                shown["spark.jars"] = ",".join([*jars, *filter(None, [given])])
                builder = builder.config("spark.jars", shown["spark.jars"])
            with on_class_path(own_path):
                SparkContext._ensure_initialized(conf=SparkConf().setAll(list(shown.items())))
            _check_values(SparkContext._jvm, settings)
            with ctrl_c_as_it_is():
                session = builder.getOrCreate()
    except (JarError, SettingError):
        raise
    except Exception as exc:
        if not is_local(master) and "None.get" in str(exc):  # the master has let the driver down
            raise no_executor(credentials.executors_within, settings) from exc
        raise DbtRuntimeError(
            f"Spark did not start: {message_of(exc)}\n{redacted(last_lines(log))}See "
            f"{log or 'the output above'}."
        ) from exc
    if not is_local(master):
        try:
            _look_around(session, credentials, settings)
            _clean_checkpoints(session)
        except BaseException:
            session.stop()
            raise
    _look_up_once(session._jvm)
    set_permissions_in_java(session)
    add_null_safe_filters(session)
    return session


def _look_around(session: SparkSession, credentials: Any, settings: dict[str, str]) -> None:
    """Whether executors outside of this process come, and have what the project needs.

    Raises:
        PlaceError: they don't.
    """
    within = credentials.executors_within
    if within:
        look_from_executors(session, settings, within, *credentials.shared_folders())


def _check_remote(session: SparkSession, credentials: Any, settings: dict[str, str]) -> None:
    """The same of a Spark Connect server.

    Raises:
        PlaceError: it lacks something.
    """
    import pyspark

    check_version(session.version, pyspark.__version__)
    if credentials.executors_within:
        own: Any = session.builder.remote(os.environ["SPARK_REMOTE"]).create()
        try:
            _look_around(own, credentials, settings)
            jars = ",".join(credentials.jars()[0])
            check_server(own, settings, credentials.catalog, jars)
        finally:
            own.client.release_session()
            own.client.close()


def _is_stopped(session: SparkSession) -> bool:
    """Whether somebody (a Python model) stopped the application."""
    context = getattr(session, "_sc", None)  # Spark Connect has none
    return context is not None and context._jsc is None


def application(credentials: Any) -> SparkSession:
    """The process's one Spark application, started when it is first asked for."""
    global _application
    with _lock:
        if _application is None or _is_stopped(_application):
            _application = _start(credentials)
        return _application


def _settings_of(session: SparkSession) -> dict[str, str]:
    """All settings of a session, by name."""
    if is_remote(session):
        return dict(session.conf.getAll)
    # pyspark asks Java for each key and each value; as one text it takes a fifth of the time
    jvm: Any = session._jvm
    writer = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    return json.loads(writer.writeValueAsString(session.conf._jconf.getAllAsJava()))


def is_remote(session: Any) -> bool:
    return not hasattr(session, "_jsparkSession")


def checkpointed(frame: Any, eager: bool = True) -> Any:
    """The rows of a frame, computed once and without the plan that made them.

    A Spark in this process keeps them in its memory and on its disk. Executors may be lost in
    mid-run, and what they kept with them: there the rows go into spark.checkpoint.dir, or onto two
    executors where nothing is set.

    Args:
        eager: False lets the first use compute them, where they are kept in this process.
    """
    session = frame.sparkSession
    if is_remote(session):
        if session.conf.get(CHECKPOINTS, None):
            return frame.checkpoint(eager=True)
        return frame.localCheckpoint(eager=eager)
    context = session.sparkContext
    if is_local(context.master):
        return frame.localCheckpoint(eager=eager)
    if context._jsc.sc().getCheckpointDir().isDefined():
        return frame.checkpoint(eager=True)
    from pyspark import StorageLevel

    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK_2)


def _clean_checkpoints(session: Any) -> None:
    """Let this application's checkpoints go when it ends, and those of applications that were
    killed."""
    place = session.sparkContext._jsc.sc().getCheckpointDir()
    if place.isEmpty():
        return
    own = session._jvm.org.apache.hadoop.fs.Path(place.get())
    files = own.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
    files.deleteOnExit(own)
    for other in files.listStatus(own.getParent()):
        if time.time() - other.getModificationTime() / 1000 > CHECKPOINTS_STAY:
            files.delete(other.getPath(), True)


def unpersist(rows: Any) -> None:
    """Free what a local checkpoint of a frame holds; a remote server does so by itself when the
    frame is gone."""
    if not is_remote(rows.sparkSession):
        rows._jdf.queryExecution().logical().rdd().unpersist(False)


def _open_catalog(session: SparkSession, name: str) -> None:
    """Let the session open its catalog, one session at a time.

    In a new warehouse the first session makes the catalog's tables. Iceberg's JDBC catalog looks
    whether they and their columns are there and makes those that aren't: of two sessions that look
    at once the second one fails. What else is wrong is reported by the first statement.
    """
    with _opening:
        for _ in range(3):
            try:
                session.sql(f"set catalog `{name}`")  # it is set already: this opens it
                return
            except Exception as exc:
                if not MADE_MEANWHILE.search(str(exc)):
                    return


class OwnSession:
    """One thread's session: settings, snapshot properties and temporary views apart from others'.

    Attributes:
        session: the pyspark session.
        settings: key -> value of the settings it started with.
    """

    def __init__(self, credentials: Any) -> None:
        app = application(credentials)
        if is_remote(app):
            self.session = app.builder.remote(os.environ["SPARK_REMOTE"]).create()
            own_remote_sessions[self.session.client._session_id] = self.session
        else:
            self.session = app.newSession()
        for key, value in credentials.spark_settings().items():
            of_catalog = key.startswith("spark.sql.catalog.")
            if of_catalog or (key.startswith("spark.sql.") and self.session.conf.isModifiable(key)):
                self.session.conf.set(key, value)
        if not is_remote(app):
            _open_catalog(self.session, credentials.catalog)
        self.settings = _settings_of(self.session)

    def set_with(self, prefix: str) -> list[str]:
        """Names of the settings that begin so, each without the prefix."""
        names = _settings_of(self.session)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def reset(self, but: Container[str] = ()) -> None:
        """Undo what the last node left behind: changed settings and temporary views.

        Args:
            but: names of views that stay.
        """
        now = _settings_of(self.session)
        for key in now.keys() - self.settings.keys():
            self.session.conf.unset(key)
        for key, value in self.settings.items():
            if now.get(key) != value:
                self.session.conf.set(key, value)
        if not is_remote(self.session):
            catalog = self.session._jsparkSession.sessionState().catalog()
            views = catalog.listLocalTempViews("*")
            for index in range(views.size()):
                name = views.apply(index).table()
                if name not in but:
                    self.session.catalog.dropTempView(name)


class _Lease:
    """A thread's hold on a session; when the thread ends the next thread may have it.

    dbt makes new threads for every command, and a session has a catalog with open connections.
    """

    def __init__(self, app: Any, key: tuple[str, str], credentials: Any) -> None:
        self.app, self.key = app, key
        with _lock:
            free = _free.get((id(app), key))
            own = free.pop() if free else None
        self.own = own or OwnSession(credentials)

    def __del__(self) -> None:
        if not hasattr(self, "own"):  # the session could not be made
            return
        with _lock:
            _free.setdefault((id(self.app), self.key), []).append(self.own)


_free: dict[tuple[int, tuple[str, str]], list[OwnSession]] = {}


def own_session(credentials: Any) -> OwnSession:
    """The calling thread's session for these credentials' warehouse."""
    key = (credentials.path(credentials.warehouse), json.dumps(credentials.spark_settings()))
    app = application(credentials)
    lease = getattr(_own, "lease", None)
    if lease is None or lease.key != key or lease.app is not app:
        lease = _own.lease = _Lease(app, key, credentials)
    return lease.own


def cancel_statements(session: Any) -> None:
    """End all that Spark is working on for this process."""
    if not is_remote(session):
        session.sparkContext.cancelAllJobs()
        return
    # a server knows no process: each thread's statements are of its own session
    for other in own_remote_sessions.values():
        if other is not session:
            with suppress(Exception):  # it may have been closed
                other.interruptAll()
    session.interruptAll()


# errors that code raises for its user's input; in Python workers each may be an OSError as well
REFUSALS = (ValueError, TypeError, FileNotFoundError, ConnectionError)
_IN_WORKERS = {kind.__name__ for kind in (*REFUSALS, OSError, PermissionError)}
_TRACEBACK = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'  File "([^"]+)", line \d+')
_RAISED = re.compile(r"(\w+(?:\.\w+)*): ")
_NOISE = re.compile(r"^\s+at [\w.$/<>]+\(|^\s*\.\.\. \d+ more$|^Driver stacktrace:$")


def message_of(exc: BaseException) -> str:
    """Spark's own words of an error, with causes, without Java stacks and query plans.

    Of what code refused in a Python worker, its message alone.
    """
    broken = isinstance(exc, (Py4JNetworkError, ConnectionError))
    ended = java_ended(isinstance(exc, Py4JNetworkError)) if broken else None
    if ended is not None:
        return ended
    java = getattr(exc, "java_exception", None)
    if java is not None:
        parts: list[str] = []
        while java is not None and len(parts) < 8:
            parts.append(f"{java.getClass().getName()}: {java.getMessage()}")
            java = java.getCause()
        text = "\nCaused by: ".join(dict.fromkeys(parts))
    else:
        text = str(exc)
    note_error(text)
    text = text.split("\n\nJVM stacktrace:")[0].split("\nJVM stacktrace:")[0]
    text = re.split(r";\n['+:!\[\w]", text)[0]  # an analysis error goes on with the plan
    refusal = _refusal_of_worker(text) or unstorable_columns(text)
    if refusal is not None:
        return redacted(refusal)
    lines = [line for line in text.splitlines() if not _NOISE.match(line)]
    words = redacted("\n".join(lines).strip())
    return words or words_for(type(exc).__name__, getattr(exc, "_stackTrace", None) or "")


def _refusal_of_worker(text: str) -> str | None:
    """The message of a `raise` in a Python worker; None of another error, and of a `raise` in the
    file that handed its function to the workers: its author needs the line."""
    lines = text.rpartition(_TRACEBACK)[2].splitlines() if _TRACEBACK in text else []
    end = next((place for place, line in enumerate(lines) if not line.startswith(" ")), 0)
    frames = [
        (place, found[1])
        for place, line in enumerate(lines[:end])
        if (found := _FRAME.match(line)) and "/pyspark/" not in found[1]
    ]
    found = _RAISED.match(lines[end]) if frames else None
    if (
        found is None
        or found[1].rpartition(".")[2] not in _IN_WORKERS
        or frames[0][1] == frames[-1][1]
        or not lines[frames[-1][0] + 1].strip().startswith("raise ")
    ):
        return None
    rest = lines[end + 1 :]
    until = next((i for i, line in enumerate(rest) if not line or _NOISE.match(line)), len(rest))
    return "\n".join([lines[end][found.end() :], *rest[:until]])
