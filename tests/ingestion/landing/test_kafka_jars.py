"""Which jars Spark is started with: Kafka's only where there is a broker. Starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.config.profile import Profile
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context
from dbt_common.exceptions import DbtRuntimeError

from tests.support.dbt_project import REPO

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:"


def jars(**env: str) -> tuple[list[str], list[str], list[str]]:
    """What the project's profile asks for in this environment."""
    text = (REPO / "profiles" / "profiles.yml").read_text(encoding="utf-8")
    raw = yaml.safe_load(text)["binlog_warehouse"]
    set_invocation_context(env)
    _, settings = Profile.render_profile(raw, "binlog_warehouse", "local", ProfileRenderer({}))
    del settings["type"], settings["threads"]
    return SparkSessionCredentials.from_dict(settings).jars()


def test_without_a_broker_nothing_of_kafka_is_asked_for() -> None:
    coordinates, left_out, files = jars()
    assert len(coordinates) == 2
    assert (
        [coordinate for coordinate in coordinates if "kafka" in coordinate]
        == left_out
        == files
        == []
    )
    assert jars(KAFKA_JARS="a:b:1") == (coordinates, [], [])


def test_with_a_broker_its_source_comes_in_the_minor_version_of_spark() -> None:
    [locked] = [
        line.split("==")[1].split()[0]
        for line in (REPO / "requirements.lock").read_text(encoding="utf-8").splitlines()
        if line.startswith("pyspark")
    ]
    [source] = jars(KAFKA_SERVERS="h:1")[0][2:]
    minor = ".".join(locked.split(".")[:2])
    assert source.startswith(f"{KAFKA}{minor}.")
    listed = (REPO / "jars.lock").read_text(encoding="utf-8")
    version = source.removeprefix(KAFKA)
    for artifact in ("sql", "token-provider"):
        assert f"  org.apache.spark_spark-{artifact}-kafka-0-10_2.13-{version}.jar\n" in listed


def test_other_jars_may_be_named(tmp_path: Path) -> None:
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).touch()
    given = f"{KAFKA}4.1.1, !org.apache.spark:token, {tmp_path}/*.jar"
    coordinates, left_out, files = jars(KAFKA_SERVERS="h:1", KAFKA_JARS=given)
    assert coordinates[2:] == [f"{KAFKA}4.1.1"]
    assert left_out == ["org.apache.spark:token"]
    assert files == [str(tmp_path / "a.jar"), str(tmp_path / "b.jar")]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DbtRuntimeError, match=r"names .*none\.jar, but there is no such file"):
        jars(KAFKA_SERVERS="h:1", KAFKA_JARS=f"{tmp_path}/none.jar")


def test_a_driver_comes_with_a_target_of_its_kind() -> None:
    plain = jars()[0]
    assert jars(PUBLISH_TARGETS="a=clickhouse")[0] == plain
    [postgres] = jars(PUBLISH_TARGETS="a=clickhouse, b=postgres")[0][len(plain) :]
    assert postgres.startswith("org.postgresql:postgresql:42.7.")
    assert jars(PUBLISH_TARGETS="b=postgres", POSTGRES_JARS="x:y:1")[0] == [*plain, "x:y:1"]
