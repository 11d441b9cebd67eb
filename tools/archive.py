"""An archive of the classes that Spark starts with, those of the project's jars among them.

python -m tools.archive    makes it, as `make setup` does
"""

from __future__ import annotations

from dbt.adapters.sparksession.jars import verified_jars
from dbt.adapters.sparksession.java import make_archive
from dbt_common.exceptions import DbtRuntimeError

from tools.profile import credentials_of_profile


def main() -> None:
    """Have the jars that the profile names, and make the archive.

    Raises:
        DbtRuntimeError: there is no Java for Spark.
        RuntimeError: Java could not write the archive.
    """
    settings = credentials_of_profile()
    try:
        jars = [*verified_jars(settings, settings.spark_settings()), *settings.jars()[2]]
    except (DbtRuntimeError, OSError):
        # the first run states why they can't be had; Spark's own classes are most of them
        jars = []
    make_archive(jars)


if __name__ == "__main__":
    main()
