"""Sessions of a Spark Connect server: those that a run writes with, and how the next run ends them.

A server goes on with a statement after its client is gone, and commits it. So a run writes down its
sessions before it writes with them, and the run that takes its lease over ends them: it interrupts
their statements, waits until the server has left them, and closes the sessions for good. A server
refuses each further statement of a closed session.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from dataclasses import asdict, dataclass
from typing import Any

from dbt.adapters.sparksession.executors import CONNECT_PORT, address
from dbt.adapters.sparksession.session import is_remote, message_of, own_remote_sessions
from dbt_common.exceptions import DbtRuntimeError

PROPERTY = "lease.session."  # of the lease's table, with the session's id: a run writes with it
CONNECT_SECONDS = 10.0
STATEMENT_ENDS_SECONDS = 120.0
ASK_EVERY_SECONDS = 0.2
CLOSED = "INVALID_HANDLE.SESSION_"  # CLOSED, CHANGED: what an ended session, or server, answers
LOOPBACK = ("localhost", "::1")
REPLACED = ("", "user_id", "session_id")  # parameters of a server's URL
# Spark Connect has no call for whether a statement has ended, but the server's thread of a
# statement is named by it. Values without a table are computed by the server's driver
STATEMENTS = "select java_method('java.lang.Thread', 'getAllStackTraces') as t from values (1)"
STATEMENT = re.compile(r"SparkConnectExecuteThread_opId=([-0-9a-f]+)")
UNFINISHED = re.compile(r"operationId: ([-0-9a-f]+) with status")


class StillWritingError(DbtRuntimeError):
    """A run that was presumed dead may still write, and can't be kept from it."""


@dataclass(frozen=True)
class RemoteSession:
    """One session of a Spark Connect server.

    Attributes:
        host, port: of the server.
        user: as the server knows the client.
        id: the session's, a UUID.
        run_id: the run that writes with it.
        client: name of that run's host.
    """

    host: str
    port: int
    user: str
    id: str
    run_id: str
    client: str

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of_text(text: str) -> RemoteSession:
        return RemoteSession(**json.loads(text))

    @property
    def server(self) -> str:
        return f"{self.host}:{self.port}"


def property_of(writer: RemoteSession) -> str:
    return PROPERTY + writer.id


def remote_session(session: Any, run_id: str) -> RemoteSession | None:
    """What a Spark session is for its server; None of a Spark in this process.

    Args:
        run_id: the run that writes with it.
    """
    if not is_remote(session):
        return None
    client = session.client
    host, port = address(os.environ["SPARK_REMOTE"], CONNECT_PORT)
    user, here = client._user_id or "", socket.gethostname()
    return RemoteSession(host, port, user, client._session_id, run_id, here)


def end_session(writer: RemoteSession) -> None:
    """Keep a session from committing anything more; it returns when nothing of it runs.

    A session of this process, of an earlier command, is not closed: this process itself writes with
    it again.

    Raises:
        StillWritingError: the server can't be asked, or a statement doesn't end.
    """
    if not _answers(writer):
        return
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.session import SparkSession

    try:
        client = SparkConnectClient(_url(writer, writer.id))
        # not by pyspark.sql, which would let a Spark in this process count as remote from then on
        watcher = SparkSession.builder.remote(_url(writer)).create()
    except Exception as exc:
        raise _not_asked(writer, message_of(exc)) from exc
    try:
        _wait_until_left(watcher, writer, client.interrupt_all() or [])
        try:
            if (
                writer.id not in own_remote_sessions
            ):  # before its statements have ended it would raise
                client.release_session()
        except Exception as exc:  # a statement began in between; the session is closed all the same
            begun = UNFINISHED.findall(str(exc))
            if not begun:
                raise
            _wait_until_left(watcher, writer, begun)
    except StillWritingError:
        raise
    except Exception as exc:
        if CLOSED not in str(exc):
            raise _not_asked(writer, message_of(exc)) from exc
    finally:
        watcher.client.release_session()
        watcher.client.close()
        client.close()


def _wait_until_left(watcher: Any, writer: RemoteSession, statements: list[str]) -> None:
    """Return when the server has left all of these statements (operation ids)."""
    until = time.monotonic() + STATEMENT_ENDS_SECONDS
    while statements:
        row = watcher.sql(STATEMENTS).first()
        statements = [each for each in statements if each in STATEMENT.findall(row.t)]
        if statements and time.monotonic() > until:
            raise StillWritingError(
                f"The run before still has a statement on the Spark Connect server {writer.server} "
                f"that was interrupted {STATEMENT_ENDS_SECONDS:.0f} s ago and goes on. Nothing was "
                "written; restart that server, then run again."
            )
        if statements:
            time.sleep(ASK_EVERY_SECONDS)


def _answers(writer: RemoteSession) -> bool:
    """Whether a server listens there; False where the host refuses the connection.

    Raises:
        StillWritingError: the host doesn't answer, or the address means another host there.
    """
    is_loopback = writer.host in LOOPBACK or writer.host.startswith("127.")
    if is_loopback and writer.client != socket.gethostname():
        raise _not_asked(writer, f"that is an address of the host {writer.client} alone")
    try:
        socket.create_connection((writer.host, writer.port), CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return False
    except OSError as exc:
        raise _not_asked(writer, str(exc)) from exc
    return True


def _not_asked(writer: RemoteSession, why: str) -> StillWritingError:
    return StillWritingError(
        f"The run before wrote through the Spark Connect server {writer.server}, which may still "
        f"commit for it and can't be asked to stop ({why.splitlines()[0] if why else 'no reason'})."
        " Nothing was written. Run again where that server can be reached; if it is gone for "
        f"good, run alter table <schema>.meta_lease unset tblproperties ('{property_of(writer)}')."
    )


def _url(writer: RemoteSession, session_id: str | None = None) -> str:
    """URL for a client of the session's server and user; token and TLS are as this process's own
    where it is the same server."""
    own, given = os.environ.get("SPARK_REMOTE", ""), ""
    if own.startswith("sc://") and address(own, CONNECT_PORT) == (writer.host, writer.port):
        given = own.partition("/;")[2]
    kept = [each for each in given.split(";") if each.partition("=")[0] not in REPLACED]
    kept += [f"user_id={writer.user}"] if writer.user else []
    kept += [f"session_id={session_id}"] if session_id else []
    return f"sc://{writer.host}:{writer.port}/;{';'.join(kept)}".rstrip(";/")
