"""Which Java Spark runs on, and the archive of Spark's classes that it starts with.

Java looks each class up in 280 jars, checks it and links it: 15,000 of them before the first query
is done. An archive (class data sharing) has them as they are after that, and Spark starts in half
the time. Java sees by itself whether an archive fits: where it is another Java, or other jars lie
there, it leaves it alone. An archive holds classes of the class path alone. So a local Spark has
the project's jars there, behind its own; executors elsewhere are sent them.

    python -m dbt.adapters.sparksession.java [JAR ...]   makes the archive, of these jars too, in
                                                         the folder of this Python
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

OLDEST_JAVA, NEWEST_JAVA = 17, 24  # Spark 4.1 needs 17; Hadoop's security calls are gone in 25
ARCHIVE = os.path.join(sys.prefix, "spark-classes.jsa")
# what Java has to say of it goes where Spark's own log goes, not to the screen
_QUIET = "-Xlog:disable -Xlog:all=warning:stderr"
# classes that it leaves out, such as those that Spark generates, are no news
_MAKING = "-Xlog:disable -Xlog:all=error:stderr"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SECONDS = 120  # that writing an archive may take
# Spark's launcher puts its jars behind Spark's own
_CLASS_PATH = "SPARK_DIST_CLASSPATH"
# what every model does; more of it would take longer than it spares
_QUERIES = """
create temporary view numbers as
    select id, id % 7 as kind, cast(id as decimal(20, 4)) / 3 as amount, cast(id as string) as text,
        cast(date '2026-03-01' + cast(id % 30 as int) as timestamp) as at
    from range(0, 100, 1, 1);
select n.kind, count(*), sum(amount), min(n.at), max_by(n.text, n.id), max(struct(n.at, n.id)),
        row_number() over (partition by n.kind order by n.kind) as place
    from numbers n left join (select distinct kind, text from numbers) k on n.kind <=> k.kind
    group by n.kind;
select from_json(to_json(struct(*)), 'id bigint, amount decimal(20, 4), at timestamp'),
        date_format(at, 'yyyy-MM'), transform(array(id, kind), x -> x + 1), sha2(text, 256)
    from numbers where kind in (select kind from numbers where id > 3)
"""
_ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "jdbc",
    "spark.sql.catalog.lake.uri": "jdbc:sqlite:{folder}/catalog.db",
    "spark.sql.catalog.lake.jdbc.schema-version": "V1",
    "spark.sql.catalog.lake.warehouse": "{folder}",
}
_ICEBERG_QUERIES = """;
create namespace lake.kept;
create table lake.kept.numbers (id bigint, kind bigint, amount decimal(20, 4), at timestamp)
    using iceberg partitioned by (days(at)) tblproperties ('format-version' = '3');
insert into lake.kept.numbers select id, kind, amount, at from numbers;
alter table lake.kept.numbers set tblproperties ('write.merge.mode' = 'merge-on-read');
merge into lake.kept.numbers held using (select * from numbers where id < 5) new
    on held.id <=> new.id
    when matched then update set kind = new.kind + 1
    when not matched then insert (id, kind) values (new.id, new.kind);
delete from lake.kept.numbers where kind = 3 and at > timestamp '2026-03-04 00:00:00';
create view lake.kept.kinds as
    select kind, count(*) as n, max(amount) as most from lake.kept.numbers group by kind;
select * from lake.kept.kinds order by kind limit 3;
select summary['total-records'] from lake.kept.numbers.snapshots
"""


def java_major(java: str) -> int | None:
    """Major version of a `java` executable; None where it doesn't run."""
    try:
        out = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', out.stderr + out.stdout)
    if not found:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # "1.8.0" is Java 8


def find_java() -> str:
    """Home folder of a Java that Spark runs on.

    Looks at JAVA_HOME, then at `java` on the PATH, then at the Java that setup put beside the
    interpreter (`<sys.prefix>/jre`).

    Raises:
        DbtRuntimeError: none of them is there in a fitting version.
    """
    places = [os.environ.get("JAVA_HOME") or ""]
    on_path = shutil.which("java")
    if on_path:
        places.append(os.path.dirname(os.path.dirname(os.path.realpath(on_path))))
    places.append(os.path.join(sys.prefix, "jre"))
    seen = []
    for home in dict.fromkeys(place for place in places if place):
        major = java_major(os.path.join(home, "bin", "java"))
        if major is not None and OLDEST_JAVA <= major <= NEWEST_JAVA:
            return home
        seen.append(f"{home} ({'no Java that runs' if major is None else f'Java {major}'})")
    raise DbtRuntimeError(
        f"Spark needs Java {OLDEST_JAVA} to {NEWEST_JAVA}; found {', '.join(seen) or 'none'}. "
        "Run `make setup`, which brings one along, or point JAVA_HOME at one."
    )


def archive_options() -> str:
    """Options with which Java takes the archive; "" where there is none."""
    return f"-XX:SharedArchiveFile={ARCHIVE} {_QUIET}" if os.path.isfile(ARCHIVE) else ""


def class_path(jars: Sequence[str]) -> str | None:
    """The text with which Java finds jars; None for a path that it would take for two.

    Of a folder that is linked it is the same, as Java compares it with the archive's.
    """
    paths = [os.path.realpath(jar) for jar in jars]
    return None if any(os.pathsep in path for path in paths) else os.pathsep.join(paths)


@contextmanager
def on_class_path(jars: str | None) -> Iterator[None]:
    """Within it a Spark that starts has these jars on its class path, see class_path."""
    before = os.environ.get(_CLASS_PATH)
    if jars:
        os.environ[_CLASS_PATH] = os.pathsep.join(filter(None, [before, jars]))
    try:
        yield
    finally:
        if before is not None:
            os.environ[_CLASS_PATH] = before
        else:
            os.environ.pop(_CLASS_PATH, None)


def make_archive(jars: Sequence[str] = ()) -> None:
    """Start Spark, let it work, and have Java keep the classes that this took.

    Args:
        jars: those that a project's Spark has on its class path. With Iceberg's among them, tables
            are written and read as well.

    Raises:
        DbtRuntimeError: there is no Java for Spark.
        RuntimeError: Java could not write the archive.
    """
    os.environ["JAVA_HOME"] = find_java()
    # a file that is not whole would break Java: it gets its name when Java has ended well
    made = f"{ARCHIVE}.{os.getpid()}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            options = f"-XX:ArchiveClassesAtExit={made} {_MAKING} {_QUICK}"
            code = _work(folder, options, jars)
        if code or not os.path.isfile(made):
            raise RuntimeError(f"Java ended with {code} and wrote no archive")
        os.replace(made, ARCHIVE)
    finally:
        if os.path.isfile(made):
            os.remove(made)


def _work(folder: str, java_options: str, jars: Sequence[str]) -> int:
    """Java's exit code after some queries of a Spark of its own, with files in a folder."""
    from pyspark.sql import SparkSession

    queries = _QUERIES
    settings = {
        "spark.driver.extraJavaOptions": f"{java_options} -Djava.io.tmpdir={folder}",
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
    }
    own_path = class_path(jars)
    if own_path and "iceberg-spark" in own_path:
        settings |= {key: value.format(folder=folder) for key, value in _ICEBERG.items()}
        queries += _ICEBERG_QUERIES
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with on_class_path(own_path):
        session = builder.getOrCreate()
    gateway: Any = session.sparkContext._gateway
    java = gateway.proc
    try:
        for query in queries.split(";"):
            frame = session.sql(query)
            if frame.columns:
                frame.write.format("noop").mode("append").save()
        session.table("numbers").write.parquet(f"{folder}/numbers")
        session.read.parquet(f"{folder}/numbers").where("kind = 3").toArrow()
        session.stop()
        # it writes at its end, which is when nobody talks to it any more
        java.stdin.close()
        return java.wait(_SECONDS)
    finally:
        java.kill()


if __name__ == "__main__":
    make_archive(sys.argv[1:])
