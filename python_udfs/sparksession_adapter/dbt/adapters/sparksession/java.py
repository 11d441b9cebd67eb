"""Which Java Spark runs on, and the archive of Spark's classes that it starts with.

Java looks each class up in 280 jars, checks it and links it: 15,000 of them before the first query
is done. An archive (class data sharing) has them as they are after that, and Spark starts in half
the time. Java sees by itself whether an archive fits: where it is another Java, or other jars lie
there, it leaves it alone.

    python -m dbt.adapters.sparksession.java    makes the archive, in the folder of this Python
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

OLDEST_JAVA, NEWEST_JAVA = 17, 24  # Spark 4.1 needs 17; Hadoop's security calls are gone in 25
ARCHIVE = os.path.join(sys.prefix, "spark-classes.jsa")
# what Java has to say of it goes where Spark's own log goes, not to the screen
_QUIET = "-Xlog:disable -Xlog:all=warning:stderr"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SECONDS = 120  # that writing an archive may take
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


def make_archive() -> None:
    """Start Spark, let it work, and have Java keep the classes that this took.

    Raises:
        DbtRuntimeError: there is no Java for Spark.
        RuntimeError: Java could not write the archive.
    """
    os.environ["JAVA_HOME"] = find_java()
    # a file that is not whole would break Java: it gets its name when Java has ended well
    made = f"{ARCHIVE}.{os.getpid()}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            code = _work(folder, f"-XX:ArchiveClassesAtExit={made} {_QUIET} {_QUICK}")
        if code or not os.path.isfile(made):
            raise RuntimeError(f"Java ended with {code} and wrote no archive")
        os.replace(made, ARCHIVE)
    finally:
        if os.path.isfile(made):
            os.remove(made)


def _work(folder: str, java_options: str) -> int:
    """Java's exit code after some queries of a Spark of its own, with files in a folder."""
    from pyspark.sql import SparkSession

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
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    gateway: Any = session.sparkContext._gateway
    java = gateway.proc
    try:
        for query in _QUERIES.split(";"):
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
    make_archive()
