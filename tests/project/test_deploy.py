"""The examples in deploy/: containers, Kubernetes, Airflow, Dagster. They are parsed, and what they
name is there: services, images, settings, make targets, operations, jars.

Each check is a function from an example's text to its problems, so that the last test can give it
mistakes.
"""

from __future__ import annotations

import ast
import json
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from benchmarks.object_store import ARTIFACTS
from tests.support.dbt_project import REPO

DEPLOY = REPO / "deploy"
OPERATIONS = [path.stem for path in REPO.glob("python_udfs/**/macros/operations/*.sql")]
# of compose's specification, those that are used
KEYS = frozenset(
    [
        "build",
        "command",
        "depends_on",
        "environment",
        "healthcheck",
        "hostname",
        "image",
        "init",
        "profiles",
        "volumes",
    ]
)
CONDITIONS = ("service_started", "service_healthy", "service_completed_successfully")
INSTRUCTIONS = ("FROM", "RUN", "USER", "WORKDIR", "COPY", "ENV", "CMD")
KINDS = {
    "ServiceAccount": "v1",
    "Service": "v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "CronJob": "batch/v1",
}


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


@cache
def settings() -> frozenset[str]:
    """The environment variables of the reference."""
    page = (REPO / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    return frozenset(name for cell in cells for name in re.findall(r"`([A-Z][A-Z_]+)`", cell))


def unknown_settings(names: list[str]) -> list[str]:
    known = {name.removesuffix("_FILE") for name in names} - settings()
    return [f"{name} is no environment variable of the project" for name in sorted(known)]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text("utf-8"), re.MULTILINE))


def command_problems(command: str) -> list[str]:
    """Make targets, operations and selectors that a command names and that aren't there."""
    found = [
        f"make {target} is no target"
        for target in re.findall(r"\bmake ([a-z-]+)", command)
        if target not in make_targets()
    ]
    found += [
        f"{name} is no operation"
        for name in re.findall(r"run-operation (\w+)", command)
        if name not in OPERATIONS
    ]
    known = yaml.safe_load((REPO / "selectors.yml").read_text("utf-8"))["selectors"]
    selectors = {selector["name"] for selector in known}
    found += [
        f"{name} is no selector"
        for name in re.findall(r"--selector (\w+)", command)
        if name not in selectors
    ]
    return found


def spark_class_problems(command: str) -> list[str]:
    """Classes of Spark that a command starts and that pyspark's jars lack."""
    (core,) = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
    with zipfile.ZipFile(core) as jar:
        names = set(jar.namelist())
    return [
        f"{name} is no class of Spark"
        for name in re.findall(r"org\.apache\.spark\.[\w.]+", command)
        if f"{name.replace('.', '/')}.class" not in names
    ]


def with_defaults(text: str) -> str:
    """A value of compose with the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def compose_problems(text: str) -> list[str]:
    parsed = yaml.safe_load(text)
    services: dict[str, dict[str, Any]] = parsed["services"]
    found = []
    for name, service in services.items():
        found += [f"{name}: {key} is no key of a service" for key in service.keys() - KEYS]
        needed = service.get("depends_on") or {}
        found += [f"{name} depends on {other}" for other in needed if other not in services]
        if isinstance(needed, dict):
            given = [item["condition"] for item in needed.values()]
            found += [f"{name}: condition {item}" for item in given if item not in CONDITIONS]
        volumes = [str(volume).split(":")[0] for volume in service.get("volumes", ())]
        named = {volume for volume in volumes if volume[0] not in "./"}
        found += [f"{name}: volume {volume}" for volume in named - parsed["volumes"].keys()]
        command = str(service.get("command") or "")
        found += command_problems(command) + spark_class_problems(command)
        for wanted, image in (("s3mock", "adobe/s3mock:"), ("nessie", "/nessie:")):
            version = ARTIFACTS[wanted].split(":")[2]
            used = with_defaults(service["image"])
            if image in used and not used.endswith(f":{version}"):
                found.append(f"{name}: {used} is not {version}, which the tests use")
    environment = services["build"]["environment"]
    found += unknown_settings(list(environment))
    try:
        json.loads(with_defaults(environment["CATALOG_OPTIONS"]))
    except ValueError:
        found.append("CATALOG_OPTIONS is no JSON")
    hosts = re.findall(r"(?:spark|http)://([a-z]+):\d+", json.dumps(services))
    found += [f"{host} is no service" for host in sorted(set(hosts) - services.keys())]
    return found


def kubernetes_problems(text: str) -> list[str]:
    parts = list(yaml.safe_load_all(text))
    found = [
        f"{part['kind']} is of {KINDS.get(part['kind'])}, not {part['apiVersion']}"
        for part in parts
        if KINDS.get(part["kind"]) != part["apiVersion"]
    ]
    kinds = {part["kind"]: part for part in parts}
    pod = kinds["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    environment = {entry["name"]: str(entry["value"]) for entry in container["env"]}
    found += unknown_settings(list(environment))
    found += command_problems(" ".join(container["command"]))
    account = kinds["ServiceAccount"]["metadata"]["name"]
    binding = kinds["RoleBinding"]
    named = {
        pod["spec"]["serviceAccountName"],
        *(subject["name"] for subject in binding["subjects"]),
    }
    if named != {account} or binding["roleRef"]["name"] != kinds["Role"]["metadata"]["name"]:
        found.append(f"the pod and the binding name {sorted(named)}, the account is {account}")
    service = kinds["Service"]
    if not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items():
        found.append("the service selects another pod")
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    if ports != {environment["SPARK_DRIVER_PORT"], environment["SPARK_BLOCK_MANAGER_PORT"]}:
        found.append(f"the service has the ports {sorted(ports)}, the driver others")
    if environment["SPARK_DRIVER_HOST"] != service["metadata"]["name"]:
        found.append("executors look for the driver by another name than the service's")
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    found += [f"no volume {name}" for name in mounted.keys() - volumes]
    files = [value for name, value in environment.items() if name.endswith("_FILE")]
    outside = [file for file in files if not file.startswith(tuple(mounted.values()))]
    return found + [f"{file} lies in no volume" for file in outside]


def dockerfile_problems(text: str) -> list[str]:
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    found = []
    for line in filter(None, lines):
        instruction, _, rest = line.partition(" ")
        if instruction not in INSTRUCTIONS:
            found.append(f"{instruction} is no instruction that is used here")
        if instruction == "COPY":
            *sources, _ = [word for word in rest.split() if not word.startswith("--")]
            found += [f"{name} isn't there" for name in sources if not (REPO / name).exists()]
        if instruction == "CMD":
            found += command_problems(" ".join(json.loads(rest)))
        if instruction == "ENV":
            names = re.findall(r"(\w+)=", rest)
            found += unknown_settings([name for name in names if name != "SPARK_HOME"])
    python = re.search(r"^FROM python:(\d+\.\d+)", text, re.MULTILINE)
    for version in re.findall(r"/python(\d+\.\d+)/", text):
        if python is None or version != python[1]:
            found.append(f"Spark is looked for below Python {version}")
    locked = (REPO / "jars.lock").read_text("utf-8")
    for group, artifact, version in re.findall(r"_JARS=([\w.-]+):([\w.-]+):([\w.-]+)", text):
        if f"{group}_{artifact}-{version}.jar" not in locked:
            found.append(f"{artifact}-{version}.jar isn't in jars.lock")
        if f"{group}:{artifact}:{version}" not in (REPO / "profiles/profiles.yml").read_text():
            found.append(f"{artifact} of the profile is of another version")
    return found


def scheduler_problems(text: str) -> list[str]:
    """Of a daily build by another scheduler: it is Python, and its commands are there."""
    texts = [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    commands = [part for part in texts if re.match(r"(make|\.venv/bin/)\S*", part)]
    if not any(command.startswith("make run") for command in commands):
        return ["nothing builds the warehouse"]
    return [problem for command in commands for problem in command_problems(command)]


CHECKS = {
    "compose.yaml": compose_problems,
    "kubernetes.yaml": kubernetes_problems,
    "Dockerfile": dockerfile_problems,
    "airflow_daily.py": scheduler_problems,
    "dagster_daily.py": scheduler_problems,
}


@pytest.mark.parametrize("name", CHECKS)
def test_what_an_example_names_is_there(name: str) -> None:
    assert CHECKS[name](text_of(name)) == []


def test_each_example_is_checked() -> None:
    assert {path.name for path in DEPLOY.iterdir()} == CHECKS.keys()


def test_the_containers_are_set_as_the_jars_of_the_tests_are() -> None:
    """The catalog's settings are those that the tests start it with."""
    server = (REPO / "benchmarks" / "object_store.py").read_text("utf-8")
    catalog = yaml.safe_load(text_of("compose.yaml"))["services"]["catalog"]["environment"]
    names = {name.replace(".lake.", ".warehouse.") for name in catalog if ".store." not in name}
    for name in names:
        assert name.removeprefix("nessie.catalog.") in server, name


@pytest.mark.parametrize(
    ("name", "there", "instead"),
    [
        ("compose.yaml", "org.apache.spark.deploy.worker.Worker", "org.apache.spark.deploy.Worker"),
        ("compose.yaml", "http://catalog:19120", "http://catalogue:19120"),
        ("compose.yaml", "adobe/s3mock:4.7.0", "adobe/s3mock:3.0.0"),
        ("compose.yaml", "condition: service_healthy", "condition: healthy"),
        ("compose.yaml", "SPARK_DRIVER_HOST:", "DRIVER_HOST:"),
        ("compose.yaml", "command: make run", "command: make build"),
        ("compose.yaml", '"store:/data/s3"', '"stores:/data/s3"'),
        ("compose.yaml", "hostname:", "host_name:"),
        ("kubernetes.yaml", "value: warehouse-driver", "value: warehouse"),
        ("kubernetes.yaml", 'value: "7079"', 'value: "7080"'),
        ("kubernetes.yaml", "batch/v1", "batch/v1beta1"),
        ("kubernetes.yaml", "/secrets/catalog_token", "/run/catalog_token"),
        ("kubernetes.yaml", "labels: {app: warehouse-build}", "labels: {app: build}"),
        ("Dockerfile", "bundle:1.12.0", "bundle:1.11.0"),
        ("Dockerfile", "python:3.11-slim", "python:3.12-slim"),
        ("Dockerfile", "requirements-java.lock", "requirements-jdk.lock"),
        ("airflow_daily.py", '"make reconcile"', '"make compare"'),
        ("airflow_daily.py", "run-operation compact", "run-operation compact_all"),
        ("dagster_daily.py", '"make run"', '"make build"'),
    ],
)
def test_a_mistake_in_an_example_is_found(name: str, there: str, instead: str) -> None:
    text = text_of(name)
    assert there in text
    assert CHECKS[name](text.replace(there, instead)) != []
