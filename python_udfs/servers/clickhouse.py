"""HTTP client for one database of a ClickHouse server."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httputil import get_pool_manager_options
from urllib3 import BaseHTTPResponse, PoolManager

from python_udfs.servers.errors import ServerError

TIMEOUT_SECONDS = 600
BLOCK_BYTES = 1 << 20  # of a file that is sent
DEFAULT_PORTS = {"http": 80, "https": 443}
# the client logs the stack of each request that fails
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL + 1)


class _NoRedirects(PoolManager):
    """Follows no redirect: each request has the user's password in a header."""

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **options: Any
    ) -> BaseHTTPResponse:
        response = super().urlopen(method, url, redirect=False, **options)
        if 300 <= response.status < 400:
            raise ServerError(
                f"{url.partition('?')[0].rstrip('/')} answers with a redirect, which isn't "
                "followed, for the password would go along: name the server itself"
            )
        return response

    def close(self) -> None:
        """Close all connections; `clear` alone leaves that to the garbage collector."""
        pools = [self.pools[key] for key in self.pools.keys()]  # noqa: SIM118 it has no iterator
        self.clear()
        for pool in pools:
            pool.close()


class ClickhouseServer:
    """One database of a server.

    Args:
        url: http[s]://host:port; over https the certificate has to be that of the name.

    Raises:
        ServerError: it can't be reached or refuses, also of each method.
    """

    def __init__(self, url: str, database: str, user: str, password: str) -> None:
        self._url, parts = url, urlsplit(url)
        # a pool that is handed in is the caller's: the client doesn't close its connections
        self._pool = _NoRedirects(**get_pool_manager_options())
        try:
            self._client: Client = clickhouse_connect.get_client(
                interface=parts.scheme,
                host=parts.hostname,
                port=parts.port or DEFAULT_PORTS[parts.scheme],
                database=database,
                username=user,
                password=password,
                send_receive_timeout=TIMEOUT_SECONDS,
                pool_mgr=self._pool,
                # without sessions a balancer may send each statement to another replica
                autogenerate_session_id=False,
                query_retries=0,
                compress=False,
                show_clickhouse_errors="scrub",
                # an error behind the first lines of an answer would come too late
                settings={"wait_end_of_query": 1},
            )
        except BaseException as exc:
            self._pool.close()
            if isinstance(exc, ClickHouseError):
                raise self._error(exc) from None
            raise

    def query(self, sql: str) -> list[list[Any]]:
        """Rows of a select; of another statement none."""
        try:
            if sql.lstrip()[:6].lower() != "select":
                self._client.command(sql)
                return []
            return [list(row) for row in self._client.query(sql).result_rows]
        except ClickHouseError as exc:
            raise self._error(exc) from None

    def insert(self, sql: str, form: str, file: Path) -> None:
        """Run an `insert .. select .. from input(..)` over a file.

        Args:
            form: the file's format by ClickHouse's name.
        """

        def blocks() -> Generator[bytes, None, None]:
            yield f"{sql} format {form}\n".encode()
            with file.open("rb") as content:
                while block := content.read(BLOCK_BYTES):
                    yield block

        try:
            # blocks can't be sent twice: so the client doesn't repeat a request that broke off
            self._client.raw_insert("", insert_block=blocks(), fmt=form)
        except ClickHouseError as exc:
            raise self._error(exc) from None

    def close(self) -> None:
        self._client.close()
        self._pool.close()

    def _error(self, exc: ClickHouseError) -> ServerError:
        """The error in the server's own words, or the reason why there is no answer."""
        cause: BaseException | None = exc.__cause__
        if cause is None:
            _, found, words = str(exc).partition("server response: ")
            return ServerError(f"it refused: {words_of(words if found else str(exc))}")
        while cause.__cause__ is not None or getattr(cause, "reason", None) is not None:
            cause = getattr(cause, "reason", None) or cause.__cause__
            assert isinstance(cause, BaseException)
        reason = str(cause).rpartition("Failed to establish a new connection: ")[2]
        return ServerError(f"it can't be reached at {self._url}: {reason}")


def words_of(text: str) -> str:
    """A server's error as one line, without its stack."""
    return " ".join(text.split(" (version ")[0].split("Stack trace")[0].split())[:400]
