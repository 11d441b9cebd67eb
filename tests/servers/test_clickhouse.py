"""The HTTP client for ClickHouse, against ClickHouse's own engine (chdb) behind an HTTP server."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pytest
from dbt.adapters.sparksession.versions.targets import Publication, StoreState, TableUpdate
from pyarrow import parquet

from python_udfs.servers.clickhouse import ClickhouseServer
from python_udfs.servers.errors import ServerError
from python_udfs.targets import clickhouse

session_of = pytest.importorskip("chdb.session", reason="chdb, the embedded ClickHouse").Session
INPUT = re.compile(r"^(.*)input\((.*)\)(.*) format Parquet$", re.DOTALL)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    opened = session_of(str(tmp_path_factory.mktemp("engine")))
    opened.query("create database shop engine=Atomic")
    opened.query("use shop")
    yield opened
    opened.close()


@pytest.fixture
def server(engine: Any, tmp_path: Path) -> Iterator[Any]:
    """ClickHouse's HTTP interface, as far as the client asks it; `requests` are its headers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            given = {
                name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()
            }
            listening.requests.append((given, dict(self.headers)))
            head, _, content = self.body().partition(b" format Parquet\n")
            sql = (given.get("query", "") + " " + head.decode()).strip()
            if content:
                file = tmp_path / "sent.parquet"
                file.write_bytes(content)
                sql = INPUT.sub(rf"\1file('{file}', 'Parquet', \2)\3", sql + " format Parquet")
            form = re.search(r"(?i)\s+format (\w+)\s*$", sql)
            try:
                answer = engine.query(sql, form[1] if form else "TabSeparated").bytes()
                self.send_response(200)
            except Exception as exc:
                answer = str(exc).encode()
                self.send_response(500)
                self.send_header("X-ClickHouse-Exception-Code", "62")
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            blocks = []
            while size := int(self.rfile.readline(), 16):
                blocks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(blocks)

        def log_message(self, *_: Any) -> None:
            return

    listening: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.requests = []
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield listening
    listening.shutdown()
    listening.server_close()
    thread.join()


@pytest.fixture
def client(server: Any) -> Iterator[ClickhouseServer]:
    opened = ClickhouseServer(f"http://127.0.0.1:{server.server_port}", "shop", "writer", "canary")
    yield opened
    opened.close()


def test_values_come_as_the_engine_has_them(client: ClickhouseServer) -> None:
    client.query(
        "create table texts (id UInt64, note Nullable(String)) engine=MergeTree order by id"
    )
    client.query("insert into texts select 18446744073709551615, 'q\\' \t\\n 中 ☃'")
    client.query("insert into texts select 1, null")
    assert client.query("select id, note from texts order by id") == [
        [1, None],
        [18446744073709551615, "q' \t\n 中 ☃"],
    ]
    assert client.query("select 1 from texts where id = 7") == []
    client.query("drop table texts sync")


def test_a_file_is_inserted_whole(client: ClickhouseServer, tmp_path: Path) -> None:
    """Several blocks of it, with what a statement would take for its end."""
    texts = [f"{number} format Parquet\n; --" * 40 for number in range(9_000)]
    file = tmp_path / "rows.parquet"
    rows = pa.table({"id": list(range(9_000)), "note": texts})
    parquet.write_table(rows, file, compression="none", use_dictionary=False)
    assert file.stat().st_size > 5 << 20
    client.query("create table notes (id Int64, note String) engine=MergeTree order by id")
    client.insert(
        "insert into notes (id, note) select id, note from input('id Int64, note String')",
        "Parquet",
        file,
    )
    assert client.query("select count(), sum(length(note)) from notes") == [
        [9_000, sum(map(len, texts))]
    ]
    client.query("drop table notes sync")


def test_a_refusal_is_the_engines_words_on_a_line_without_a_stack(
    client: ClickhouseServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for statement in ("select nothing from nowhere", "drop table nowhere"):
        with pytest.raises(ServerError) as error:
            client.query(statement)
        text = str(error.value)
        assert text.startswith("it refused: Code: 60. DB::Exception: ")
        assert "nowhere" in text and "\n" not in text
        assert "Stack trace" not in text and "version" not in text and "canary" not in text
    assert capfd.readouterr().err == ""


def test_each_request_names_the_user_in_a_header_alone(
    client: ClickhouseServer, server: Any
) -> None:
    client.query("select 1")
    for given, headers in server.requests:
        assert "canary" not in str(given)
        assert headers["Authorization"].startswith("Basic ")
        assert "session_id" not in given
    # the first request only asks the server for its version
    assert all(given["wait_end_of_query"] == "1" for given, _ in server.requests[1:])


def test_a_server_that_is_not_there_is_named_with_the_reason(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ServerError) as error:
        ClickhouseServer("http://127.0.0.1:1", "shop", "writer", "canary")
    assert str(error.value) == (
        "it can't be reached at http://127.0.0.1:1: [Errno 111] Connection refused"
    )
    assert capfd.readouterr().err == ""


class Rows:
    """What stands for a DataFrame of an update: it writes its rows as Spark would."""

    def __init__(self, *rows: tuple[bytes, int, int | None, str | None]) -> None:
        self._columns = list(zip(*rows, strict=True))

    @property
    def write(self) -> Rows:
        return self

    def selectExpr(self, *_: str) -> Rows:
        return self

    def parquet(self, uri: str) -> None:
        folder = Path(unquote(urlsplit(uri).path))
        folder.mkdir(parents=True)
        kinds = {"row_key": pa.binary(), "sign": pa.int32(), "id": pa.int64(), "note": pa.string()}
        arrays = [
            pa.array(column, type=kind)
            for column, kind in zip(self._columns, kinds.values(), strict=True)
        ]
        parquet.write_table(pa.Table.from_arrays(arrays, list(kinds)), folder / "part.parquet")


def test_a_store_takes_versions_by_http(
    server: Any, client: ClickhouseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = Publication("shown", "x", "counts", "model.p.counts", ("id",))
    kinds = {"id": "bigint", "note": "string"}
    first, second, third = (bytes([number]) * 32 for number in range(3))
    note = "it's {id:Int64} %s \\ ☃\n;"

    def taken(version: int, whole: bool, sent: int, rows: Rows) -> dict[str, StoreState]:
        monkeypatch.setattr(clickhouse, "counted", lambda frame: (frame, lambda: sent))
        url = f"http://127.0.0.1:{server.server_port}"
        opened = clickhouse.Remote(url, "shop", "writer", "canary")
        store = clickhouse.ClickhouseStore(opened, tmp_path / "a folder", "w")
        before = dict(store.held(["counts"]))
        store.take([TableUpdate(publication, version, f"mark{version}", rows, whole, kinds)])
        store.close()
        return before

    assert taken(1, True, 2, Rows((first, 1, 1, note), (second, 1, None, None))) == {}
    assert client.query("select id, note from counts order by id") == [[1, note], [None, None]]
    news = Rows((second, -1, None, None), (third, 1, 7, ""), (first, 1, 1, "x"))
    assert taken(2, False, 3, news) == {"counts": StoreState(1, "mark1", 1, "mark1")}
    assert client.query("select id, note from counts order by id") == [[1, "x"], [7, ""]]
    assert taken(3, True, 1, Rows((third, 1, 7, ""))) == {
        "counts": StoreState(2, "mark2", 2, "mark2")
    }
    assert client.query("select id, note from counts order by id") == [[7, ""]]
    tables = "select name from system.tables where database = currentDatabase() order by name"
    assert client.query(tables) == [["counts"], ["counts__rows"], ["published_version"]]
