"""Which catalog keeps the tables, and where their files lie: as the environment sets it.

| CATALOG | where the tables are kept |
|---|---|
| `sqlite` | the file catalog.db in WAREHOUSE, which is a folder |
| `jdbc` | a database that CATALOG_URI names, e.g. jdbc:postgresql://host/catalog |
| `rest` | a server that CATALOG_URI names; WAREHOUSE is its name for the warehouse |
| `hive` | a Hive metastore that CATALOG_URI names, thrift://host:9083 |
"""

from __future__ import annotations

import json
import re

from dbt.adapters.sparksession.secrets import environment
from dbt_common.exceptions import DbtRuntimeError

SQLITE, JDBC, REST, HIVE = KINDS = ("sqlite", "jdbc", "rest", "hive")
URI = re.compile(r"^([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
# scheme of a place -> the FileIO that reads and writes it without Hadoop
FILE_IO = {
    "s3": "org.apache.iceberg.aws.s3.S3FileIO",
    "s3a": "org.apache.iceberg.aws.s3.S3FileIO",
    "gs": "org.apache.iceberg.gcp.gcs.GCSFileIO",
    "abfss": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
}


def scheme_of(place: str) -> str:
    """Scheme of a URI; "" of a path.

    >>> scheme_of("s3://bucket/lake"), scheme_of("/data/lake")
    ('s3', '')
    """
    found = URI.match(place)
    return found[1].lower() if found else ""


def catalog_settings(kind: str, uri: str, warehouse: str) -> dict[str, str]:
    """Properties of Iceberg's catalog.

    Args:
        kind: see KINDS.
        uri: of the catalog; "" of SQLite.
        warehouse: absolute path or URI; for a REST catalog also a name.

    Raises:
        DbtRuntimeError: they don't fit together, or CATALOG_OPTIONS isn't an object of texts.
    """
    if kind not in KINDS:
        raise DbtRuntimeError(f"CATALOG must be one of {', '.join(KINDS)}, got {kind!r}.")
    scheme = scheme_of(warehouse)
    if kind == SQLITE:
        if scheme not in ("", "file"):
            raise DbtRuntimeError(
                f"WAREHOUSE={warehouse} needs a catalog of its own: set CATALOG to jdbc, rest or "
                "hive, and CATALOG_URI. SQLite's lies in a folder."
            )
        return {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{warehouse}/catalog.db?busy_timeout=30000",
            "jdbc.schema-version": "V1",
            "warehouse": f"{warehouse}/data",
        } | _options()
    if not uri:
        raise DbtRuntimeError(f"CATALOG={kind} needs the catalog's address: set CATALOG_URI.")
    found = {"type": kind, "uri": uri, "warehouse": warehouse}
    if kind == JDBC:
        found["jdbc.schema-version"] = "V1"
    if kind == REST:
        # servers that have views don't always list it among what they can do
        found["view-endpoints-supported"] = "true"
        found |= _given(
            token=environment("CATALOG_TOKEN"), credential=environment("CATALOG_CREDENTIAL")
        )
    elif scheme in FILE_IO:
        found["io-impl"] = FILE_IO[scheme]
    elif not scheme:
        found["warehouse"] = f"{warehouse}/data"
    if kind == JDBC:
        login = {
            "jdbc.user": environment("CATALOG_USER"),
            "jdbc.password": environment("CATALOG_PASSWORD"),
        }
        found |= _given(**login)
    return found | _options()


def _given(**properties: str | None) -> dict[str, str]:
    """Those properties that have a value."""
    return {key: value for key, value in properties.items() if value}


def _options() -> dict[str, str]:
    """What CATALOG_OPTIONS adds."""
    text = environment("CATALOG_OPTIONS")
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise DbtRuntimeError(
            "CATALOG_OPTIONS must be a JSON object of texts, such as "
            '{"s3.endpoint": "http://host:9000", "s3.path-style-access": "true"}.'
        )
    return found
