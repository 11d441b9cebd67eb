"""The jars that Spark is started with: resolved once, each verified before any of it runs.

The lock file (`jars_lock` of the profile) names each jar with its sha256, as sha256sum writes it:

    <sha256>  <group>_<artifact>-<version>.jar

A jar that differs is an error, and so is a jar that isn't listed: the message holds the line to
add. Jars that a setting names as files are the operator's own and aren't compared. What a jar was
when it was verified is noted with its size and time, so that later runs read no jar again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from dbt_common.exceptions import DbtRuntimeError
from filelock import FileLock

DIGITS = 64  # of a sha256
FROM_WHERE = ("spark.jars.ivySettings", "spark.jars.repositories")


class JarError(DbtRuntimeError):
    """A jar differs from the lock file's."""


def _note_of(credentials: Any) -> str:
    """The file that keeps what the coordinates were resolved to."""
    packages, left_out, _ = credentials.jars()
    asked_for = packages + [f"!{pattern}" for pattern in left_out]
    digest = hashlib.sha256(json.dumps(asked_for).encode()).hexdigest()[:12]
    return os.path.join(credentials.path(credentials.jars_dir), f"resolved-{digest}.json")


def _noted(credentials: Any) -> dict[str, list[Any]]:
    """Name -> [sha256, size, time of the last change] of the resolved jars; {} without."""
    try:
        with open(_note_of(credentials), encoding="utf-8") as file:
            noted = json.load(file)
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {name: [] for name in noted}


def _path(credentials: Any, name: str) -> str:
    return os.path.join(credentials.path(credentials.jars_dir), "jars", name)


def known_jars(credentials: Any) -> list[str]:
    """Paths of the jars that the coordinates were resolved to; [] where they have to be."""
    paths = [_path(credentials, name) for name in _noted(credentials)]
    return paths if all(map(os.path.isfile, paths)) else []


def verified_jars(credentials: Any, settings: Mapping[str, str]) -> list[str]:
    """Paths of the jars of the profile's coordinates, resolved where they aren't yet.

    Args:
        settings: of the Spark that is to be started; a Java that resolves gets its own options.

    Raises:
        JarError: one is another than in the lock file, or isn't listed there.
    """
    if not credentials.jars()[0]:
        return []
    if known_jars(credentials):
        return _verified(credentials, settings)
    folder = credentials.path(credentials.jars_dir)
    os.makedirs(folder, exist_ok=True)
    # two processes that resolve jars into one folder break each other's
    with FileLock(os.path.join(folder, ".lock")):
        return _verified(credentials, settings)


def _verified(credentials: Any, settings: Mapping[str, str]) -> list[str]:
    """The same, where no other process resolves jars into the folder."""
    noted = _noted(credentials) if known_jars(credentials) else {}
    names = list(noted) or _resolved(credentials, settings)
    locked, unlisted, found = locked_jars(credentials), {}, {}
    for name in names:
        path = _path(credentials, name)
        status = os.stat(path)
        before = noted.get(name) or []
        mark = [status.st_size, status.st_ctime_ns]
        digest = before[0] if before[1:] == mark else _sha256(path)
        if name not in locked:
            unlisted[name] = digest
        elif digest != locked[name]:
            raise JarError(
                f"The jar {path} isn't the jar of {credentials.jars_lock}: its sha256 is "
                f"{digest}, expected {locked[name]}. Nothing of it was run. Delete it and "
                f"{_note_of(credentials)}, and run again; where it stays so, ask where it comes "
                "from."
            )
        found[name] = [digest, *mark]
    if unlisted and credentials.jars_lock:
        lines = "\n".join(f"{digest}  {name}" for name, digest in unlisted.items())
        raise JarError(
            f"{credentials.jars_lock} doesn't list {len(unlisted)} jars that the coordinates "
            "brought, so nothing of them was run. Compare their sha256 with what their makers "
            f"publish, add these lines to {credentials.jars_lock} and run again:\n{lines}"
        )
    if found != noted:
        with open(_note_of(credentials), "w", encoding="utf-8") as file:
            json.dump(found, file)
    return [_path(credentials, name) for name in names]


def locked_jars(credentials: Any) -> dict[str, str]:
    """Name -> sha256 as the lock file has them; {} where the profile names no lock file.

    Raises:
        JarError: it isn't there, or holds something else.
    """
    if not credentials.jars_lock:
        return {}
    path = credentials.path(credentials.jars_lock)
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip() and line[0] != "#"]
    except FileNotFoundError:
        raise JarError(
            f"The profile's jars_lock names {path}, which isn't there. Put the file back; a "
            "profile whose jars are to run unverified has jars_lock: ''."
        ) from None
    wrong = [line for line in lines if len(line) != 2 or len(line[0]) != DIGITS]
    if wrong:
        raise JarError(f"{path} must hold lines of `<sha256>  <jar>`, got {' '.join(wrong[0])!r}.")
    return {name: digest for digest, name in lines}


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _resolved(credentials: Any, settings: Mapping[str, str]) -> list[str]:
    """Let Spark resolve the coordinates; the names of the jars, dependencies among them.

    A Java of its own does it, which ends before Spark starts: nothing of a jar has run when it is
    verified.
    """
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    packages, left_out, _ = credentials.jars()
    own = {
        "spark.jars.packages": ",".join(packages),
        "spark.jars.excludes": ",".join(left_out),
        "spark.jars.ivy": credentials.path(credentials.jars_dir),
    }
    # where the jars come from, if the profile names it
    own |= {key: settings[key] for key in FROM_WHERE if key in settings}
    gateway = launch_gateway(SparkConf(loadDefaults=False).setAll(list(own.items())))
    try:
        listed = gateway.jvm.java.lang.System.getProperty("spark.jars") or ""
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    names = [os.path.basename(part) for part in listed.split(",")]
    return sorted(name for name in names if os.path.isfile(_path(credentials, name)))
