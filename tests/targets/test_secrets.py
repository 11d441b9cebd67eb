"""Passwords reach the server that they are for, and nothing else. No server."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession import private_files
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.secrets import environment, is_secret, redacted
from dbt.adapters.sparksession.versions.targets import PublishError
from dbt_common.exceptions import DbtRuntimeError

from python_udfs.servers import jdbc, mysql
from python_udfs.targets import clickhouse, kafka, transactional
from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT

CANARY = "canary-8d1f/+ä%41"
SESSION: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))


@pytest.fixture
def answers() -> Iterator[Any]:
    """A server whose answers a test sets, and the headers that came to it, by path."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.came.append({name.lower(): header for name, header in self.headers.items()})
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, headers = server.answer
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            return

    server: Any = HTTPServer(("127.0.0.1", 0), Handler)
    server.came, server.answer = [], (200, {})
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def problem(opened: Any, monkeypatch: Any, **env: str) -> str:
    """Why a target isn't opened with these settings; no part of the canary is in it."""
    for name, value in env.items():
        monkeypatch.setenv(f"PUBLISH_X_{name}", value)
    with pytest.raises((PublishError, DbtRuntimeError)) as error:
        opened(SESSION, "x", "w")
    text = str(error.value)
    assert CANARY not in text and "canary" not in text
    return text


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_takes_no_password_to_another_place(
    answers: Any, monkeypatch: Any, code: int
) -> None:
    port = answers.server_port
    answers.answer = (code, {"Location": f"http://localhost:{port}/elsewhere"})
    reported = problem(
        clickhouse.open_store,
        monkeypatch,
        URL=f"http://127.0.0.1:{port}/shop",
        USER="u",
        PASSWORD="canary",
    )
    assert "redirect" in reported
    login = base64.b64encode(b"u:canary").decode()
    assert [headers.get("authorization") for headers in answers.came] == [f"Basic {login}"]


@pytest.mark.parametrize("url", ["u:{}@h:8123/shop", "h:8123/shop?password={}", "{}@h:8123/shop"])
def test_a_password_in_an_address_of_clickhouse_is_refused_and_not_shown(
    monkeypatch: Any, url: str
) -> None:
    reported = problem(clickhouse.open_store, monkeypatch, URL="http://" + url.format("canary"))
    assert "are not read from it" in reported


@pytest.mark.parametrize(
    ("opened", "env"),
    [
        (clickhouse.open_store, {"URL": "http://127.0.0.1:1/shop"}),
        (kafka.open_store, {"URL": "127.0.0.1:1"}),
        (kafka.open_store, {"URL": "h:1", "OPTIONS": '{"security.protocol": "SASL_PLAINTEXT"}'}),
        (
            kafka.open_store,
            {
                "URL": "h:1",
                "OPTIONS": json.dumps(
                    {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
                ),
            },
        ),
    ],
)
def test_tls_that_is_asked_for_is_not_left_out(
    monkeypatch: Any, opened: Any, env: dict[str, str]
) -> None:
    assert "asks for TLS" in problem(opened, monkeypatch, TLS="verify", **env)


@pytest.mark.parametrize(
    ("scheme", "tls", "weaker"),
    [
        ("mysql", ("sslMode", "VERIFY_IDENTITY"), ("useSSL=false", "sslMode=DISABLED")),
        ("postgresql", ("sslmode", "verify-full"), ("sslmode=prefer", "ssl=true")),
    ],
)
def test_tls_of_a_database_is_verified_where_it_is_asked_for(
    monkeypatch: Any, scheme: str, tls: tuple[str, str], weaker: tuple[str, ...]
) -> None:
    def login(_: Any, target: str, _warehouse: str = "w") -> dict[str, str]:
        return transactional.login(target, scheme, tls)

    monkeypatch.setenv("PUBLISH_X_USER", "u")
    monkeypatch.setenv("PUBLISH_X_PASSWORD", CANARY)
    monkeypatch.setenv("PUBLISH_X_URL", f"jdbc:{scheme}://h:1/shop?connectTimeout=1")
    assert tls[0] not in login(None, "x")
    for option in weaker:
        url = f"jdbc:{scheme}://h:1/shop?a=b&{option}"
        assert "asks for TLS" in problem(login, monkeypatch, TLS="verify", URL=url)
    for address in (f"(host=h,{weaker[0]})", f"address=(host=h)({weaker[0]})"):
        url = f"jdbc:{scheme}://{address}/shop"
        assert "asks for TLS" in problem(login, monkeypatch, TLS="verify", URL=url)
    url = f"jdbc:{scheme}://h:1/shop?" + weaker[0].replace("M", "%4D").replace("m", "%6D", 1)
    assert "asks for TLS" in problem(login, monkeypatch, TLS="verify", URL=url)
    monkeypatch.setenv("PUBLISH_X_URL", f"jdbc:{scheme}://h:1/shop")
    assert login(None, "x")[tls[0]] == tls[1]
    assert "must be verify or empty" in problem(login, monkeypatch, TLS="yes")


def test_a_secret_may_come_by_a_file(monkeypatch: Any, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{CANARY}\n", encoding="utf-8")
    monkeypatch.setenv("MYSQL_PASSWORD_FILE", str(file))
    monkeypatch.setenv("MYSQL_URL", "jdbc:mysql://h:1/")
    monkeypatch.setenv("MYSQL_USER", "u")
    assert mysql.settings()["password"] == CANARY
    monkeypatch.setenv("MYSQL_PASSWORD", "canary")
    with pytest.raises(DbtRuntimeError, match="are both set"):
        mysql.settings()
    monkeypatch.delenv("MYSQL_PASSWORD")
    monkeypatch.setenv("MYSQL_PASSWORD_FILE", str(tmp_path / "none"))
    with pytest.raises(DbtRuntimeError, match="can't be read: No such file"):
        mysql.settings()


def test_what_a_server_answers_has_no_secret_in_it(monkeypatch: Any) -> None:
    monkeypatch.setenv("MYSQL_PASSWORD", CANARY)
    monkeypatch.setenv("X_OPTIONS", json.dumps({"sasl.jaas.config": 'x password="jaas-canary";'}))
    monkeypatch.setenv("X_URL", "jdbc:postgresql://h/db?user=u&password=url-canary&a=b")
    assert environment("MYSQL_PASSWORD") == CANARY
    assert environment("X_OPTIONS") and environment("X_URL")
    reported = [
        f"Access denied ({CANARY})",
        "Bad login jaas-canary",
        "No suitable driver for jdbc:postgresql://h/db?user=u&password=url-canary&a=b",
        "No suitable driver for jdbc:mysql://u:never-seen-canary@h/db",
        "No suitable driver for jdbc:mysql://h/db?trustCertificateKeyStorePassword=new-canary",
        "No suitable driver for jdbc:mysql://h/db?a=b&pwd=new-canary&c=d",
        "No suitable driver for jdbc:mysql://(host=h,password=new-canary)/db",
    ]
    for text in reported:
        assert "canary" not in redacted(text) and "***" in redacted(text)
        assert "canary" not in str(jdbc.server_error(Exception(text), "The server refused"))
    assert redacted("jdbc:mysql://h:3306/shop?a=b") == "jdbc:mysql://h:3306/shop?a=b"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("spark.sql.catalog.lake.jdbc.password", True),
        ("spark.sql.catalog.lake.token", True),
        ("spark.sql.catalog.lake.credential", True),
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.ssl.keyPassword", True),
        ("spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net", True),
        ("spark.hadoop.fs.s3a.encryption.key", True),
        ("spark.sql.catalog.lake.s3.sse.key", True),
        ("spark.sql.catalog.lake.header.Authorization", True),
        ("spark.sql.catalog.lake.header.X-Api-Key", True),
        ("spark.hadoop.fs.azure.sas.c.a.blob.core.windows.net", True),
        ("spark.sql.catalog.lake.s3.sse.type", False),
        ("spark.sql.autoBroadcastJoinThreshold", False),
        ("spark.sql.session.timeZone", False),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", False),
    ],
)
def test_settings_that_are_secret_are_known_by_their_names(name: str, secret: bool) -> None:
    assert is_secret(name) == secret


STARTS = """
import pyspark.java_gateway, sys
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession import session

def popen(command, **options):
    print(" ".join(map(str, command)))
    sys.stdout.flush()
    raise OSError("far enough")

pyspark.java_gateway.Popen = popen
secret = {
    "spark.sql.catalog.lake.jdbc.password": sys.argv[1],
    "spark.sql.catalog.lake.uri": f"jdbc:postgresql://h/c?user=u&password={sys.argv[1]}",
    "spark.executor.memory": "77m",
}
credentials = SparkSessionCredentials(
    schema="dw", database=None, packages=[], verbose=True, server_side_parameters=secret
)
try:
    session.application(credentials)
except Exception as exc:
    print(exc)
"""


def test_a_catalogs_password_is_not_on_javas_command_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTS, CANARY], cwd=tmp_path, capture_output=True, text=True
    )
    assert "spark.executor.memory=77m" in done.stdout, done.stderr
    assert "canary" not in done.stdout + done.stderr


def test_texts_are_no_variables_of_spark() -> None:
    settings = SparkSessionCredentials(schema="dw", database=None).spark_settings()
    assert settings["spark.sql.variable.substitute"] == "false"


def test_what_a_run_writes_is_its_users_alone(monkeypatch: Any, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        folder = tmp_path / "warehouse"
        folder.mkdir(mode=0o755)
        private_files.keep_private(str(folder), str(tmp_path / "none"))
        (folder / "data").mkdir()
        (folder / "data" / "file").write_text("x")
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, *sorted(folder.rglob("*")))]
        assert modes == [0o700, 0o700, 0o600]
        monkeypatch.setenv("WAREHOUSE_UMASK", "027")
        shared = tmp_path / "shared"
        shared.mkdir()
        shared.chmod(0o755)
        private_files.keep_private(str(shared))
        assert stat.S_IMODE(shared.stat().st_mode) == 0o750
        hadoop = SparkSessionCredentials(schema="dw", database=None).spark_settings()
        assert hadoop["spark.hadoop.fs.permissions.umask-mode"] == "027"
        for wrong in ("777", "8", "-1", "x"):
            monkeypatch.setenv("WAREHOUSE_UMASK", wrong)
            with pytest.raises(DbtRuntimeError, match="must be an octal number up to 077"):
                private_files.umask()
    finally:
        os.umask(before)


def test_a_build_leaves_no_secret_behind(make_project: Callable[..., DbtProject]) -> None:
    """A whole build with a target that is down: logs, artifacts and what is printed."""
    exposure = """
        exposures:
          - name: analytics
            type: application
            owner: {name: a}
            depends_on: [ref('counts')]
            config: {meta: {publish: {target: analytics, table: counts, key: [id]}}}
    """
    project = make_project(
        {
            "dbt_project.yml": PROJECT,
            "models/counts.sql": "{{ config(materialized='table') }} select 1 as id",
            "models/_exposures.yml": exposure,
        },
        publish_targets="analytics=clickhouse",
        publish_analytics_url="http://127.0.0.1:1/serving",
        publish_analytics_user="u",
        publish_analytics_password=f"{CANARY}-of-clickhouse",
        mysql_password=f"{CANARY}-of-mysql",
        catalog_password=f"{CANARY}-of-catalog",
    )
    profile = project.profiles / "profiles.yml"
    setting = "spark.sql.catalog.other.password: \"{{ env_var('CATALOG_PASSWORD') }}\""
    text = profile.read_text()
    settings = "      server_side_parameters: &settings\n"  # of the target `local`
    assert text.count(settings) == 1
    profile.write_text(text.replace(settings, f"{settings}        {setting}\n"))

    done = project.run("build", "--write-json", expect_ok=None)
    assert "127.0.0.1:1" in f"{done.exception}{done.log}", done.log
    written = [path for folder in (project.target, project.logs) for path in folder.rglob("*")]
    files = [path for path in written if path.is_file()]
    assert {"manifest.json", "run_results.json", "dbt.log"} <= {file.name for file in files}
    for name, item in [("output", f"{done.exception}{done.log}".encode())] + [
        (str(file), file.read_bytes()) for file in files
    ]:
        assert b"canary-8d1f" not in item, name
