"""A REST catalog (Nessie) and an S3 store (s3mock) on 127.0.0.1, from their makers' own jars."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dbt.adapters.sparksession.java import find_java, java_major

from benchmarks.common import free_ports

OLDEST_JAVA_OF_NESSIE = 21
ARTIFACTS = {
    "s3mock": "com.adobe.testing:s3mock:4.7.0:jar:exec",
    "nessie": "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner",
}
STARTS_SECONDS = 120
QUICK = ("-Xmx400m", "-XX:TieredStopAtLevel=1")
BUCKET, KEY, SECRET = "lake", "key-of-the-lake", "secret-of-the-lake"


def java_of_nessie() -> str | None:
    """A `java` of 21 or later; None without."""
    homes = [*Path("/usr/lib/jvm").glob("*"), Path(os.environ.get("JAVA_HOME") or "/nowhere")]
    for home in sorted(homes):
        major = java_major(str(home / "bin" / "java"))
        if major is not None and major >= OLDEST_JAVA_OF_NESSIE:
            return str(home / "bin" / "java")
    return None


def server_jars(folder: Path, names: Iterable[str] = ARTIFACTS) -> dict[str, Path] | None:
    """The servers' jars by name, as Maven has them; None where it can't have them.

    SERVER_JARS may name a folder, where Maven keeps them from then on.
    """
    maven = shutil.which("mvn")
    kept = Path(os.environ.get("SERVER_JARS") or folder)
    found = {}
    for name in names:
        artifact = ARTIFACTS[name]
        _, wanted, version, _, kind = artifact.split(":")
        known = list(kept.rglob(f"{wanted}-{version}-{kind}.jar"))
        if not known and maven:
            get = [maven, "-q", "-B", "dependency:get", f"-Dmaven.repo.local={kept}"]
            get += ["-Dtransitive=false", f"-Dartifact={artifact}"]
            subprocess.run(get, capture_output=True, timeout=300, check=False)
            known = list(kept.rglob(f"{wanted}-{version}-{kind}.jar"))
        if not known:
            return None
        found[name] = known[0]
    return found


@contextmanager
def _server(
    command: list[str], folder: Path, name: str, env: dict[str, str], ready: str
) -> Iterator:
    """A server that runs within it, once `ready` (a URL) answers."""
    log = folder / f"{name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | env, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        until = time.monotonic() + STARTS_SECONDS
        while True:
            try:
                urllib.request.urlopen(ready, timeout=5).close()
                break
            except urllib.error.HTTPError:
                break  # it answers
            except OSError as exc:
                text = log.read_text(errors="replace")[-3000:]
                if time.monotonic() > until or process.poll() is not None:
                    raise AssertionError(f"{name} didn't start: {text}") from exc
                time.sleep(0.3)
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def s3_store(folder: Path, jars: dict[str, Path]) -> Iterator[str]:
    """An S3 store with one bucket; its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    port, tls = free_ports(2)
    settings = {
        "COM_ADOBE_TESTING_S3MOCK_STORE_INITIAL_BUCKETS": BUCKET,
        "COM_ADOBE_TESTING_S3MOCK_STORE_ROOT": str(folder / "s3"),
        "SERVER_PORT": str(tls),
        "COM_ADOBE_TESTING_S3MOCK_HTTP_PORT": str(port),
        "SERVER_ADDRESS": "127.0.0.1",
    }
    (folder / "s3").mkdir(exist_ok=True)
    command = [str(Path(find_java()) / "bin" / "java"), *QUICK, "-jar", str(jars["s3mock"])]
    endpoint = f"http://127.0.0.1:{port}"
    with _server(command, folder, "s3mock", settings, endpoint):
        yield endpoint


def landing_options(endpoint: str) -> str:
    """LANDING_OPTIONS of that store."""
    options = {
        "endpoint_override": endpoint.removeprefix("http://"),
        "scheme": "http",
        "region": "us-east-1",
        "access_key": KEY,
        "secret_key": SECRET,
    }
    return json.dumps(options)


@contextmanager
def nessie_and_s3(folder: Path, jars: dict[str, Path], java: str) -> Iterator[dict[str, str]]:
    """Environment of a project whose tables are in both."""
    with s3_store(folder, jars) as endpoint, _nessie(folder, jars, java, endpoint) as env:
        yield env


@contextmanager
def _nessie(
    folder: Path, jars: dict[str, Path], java: str, endpoint: str
) -> Iterator[dict[str, str]]:
    nessie, management = free_ports(2)
    lake = "nessie.catalog"
    secret = "urn:nessie-secret:quarkus:nessie.catalog.secrets.access-key"
    settings = {
        "quarkus.http.port": str(nessie),
        "quarkus.http.host": "127.0.0.1",
        "quarkus.management.port": str(management),
        "quarkus.management.host": "127.0.0.1",
        f"{lake}.default-warehouse": "warehouse",
        f"{lake}.warehouses.warehouse.location": f"s3://{BUCKET}/",
        f"{lake}.service.s3.default-options.region": "us-east-1",
        f"{lake}.service.s3.default-options.endpoint": endpoint,
        f"{lake}.service.s3.default-options.path-style-access": "true",
        f"{lake}.service.s3.default-options.request-signing-enabled": "false",
        f"{lake}.service.s3.default-options.access-key": secret,
    }
    # no properties: Nessie takes names that it doesn't know from the environment alone
    secrets = {f"{lake}.secrets.access-key.name": KEY, f"{lake}.secrets.access-key.secret": SECRET}
    server = [java, *QUICK, *(f"-D{key}={value}" for key, value in settings.items())]
    server += ["-jar", str(jars["nessie"])]
    uri = f"http://127.0.0.1:{nessie}/iceberg"
    with _server(server, folder, "nessie", secrets, f"{uri}/v1/config"):
        options = {
            "s3.endpoint": endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.remote-signing-enabled": "false",
            "client.region": "us-east-1",
        }
        yield {
            "CATALOG": "rest",
            "CATALOG_URI": uri,
            "WAREHOUSE": f"s3://{BUCKET}/",
            "CATALOG_OPTIONS": json.dumps(options),
        }
