"""The HTTP client for ClickHouse verifies the server's certificate and name."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from python_udfs.servers.clickhouse import ClickhouseServer
from python_udfs.servers.errors import ServerError

NAME = "localhost"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of `localhost` that no store of the system knows, with its key in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl isn't there")
    key, file = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(file)], check=True, capture_output=True
    )
    file.write_text(file.read_text() + key.read_text())
    return file


@pytest.fixture
def server(certificate: Path) -> Iterator[Any]:
    """An HTTPS server that redirects; `came` are the headers that reached it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            listening.came.append(dict(self.headers))
            self.send_response(302)
            self.send_header("Location", "https://elsewhere/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    class Quiet(HTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that breaks off the handshake is what the tests ask for."""

    listening: Any = Quiet(("127.0.0.1", 0), Handler)
    listening.came = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield listening
    listening.shutdown()
    listening.server_close()
    thread.join()


def problem(server: Any, host: str) -> str:
    with pytest.raises(ServerError) as error:
        ClickhouseServer(f"https://{host}:{server.server_port}", "shop", "writer", "canary")
    assert "canary" not in str(error.value)
    return str(error.value)


def test_a_certificate_that_the_system_does_not_know_is_refused_before_the_login(
    server: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert "certificate verify failed" in problem(server, NAME)
    assert server.came == []
    assert capfd.readouterr().err == ""


def test_a_certificate_in_the_file_that_the_environment_names_is_trusted_for_its_name_alone(
    server: Any, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert "answers with a redirect, which isn't followed" in problem(server, NAME)
    assert len(server.came) == 1
    assert "certificate verify failed" in problem(server, "127.0.0.1")
    assert len(server.came) == 1
