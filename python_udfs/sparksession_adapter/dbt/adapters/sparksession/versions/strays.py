"""Whether a table's folder holds files that no snapshot of it names, by a look at its metadata."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import unquote, urlparse

from dbt.adapters.sparksession.edges import Foreign

MOST_FILES = 50_000  # of a table's folder that are looked at here
_EPOCH = datetime(1970, 1, 1)


class _UnknownNamesError(Exception):
    """What a manifest names isn't read here."""


def may_have_strays(session: Foreign, table: Foreign, since: datetime | None = None) -> bool:
    """Whether a file of the table's folder may be named by no snapshot; True where that is unknown.

    Iceberg's action decides which files go. It takes some Spark jobs for each table, whatever is
    there. This look reads no manifest that is older than `since`: what names a file is written
    behind it.

    Args:
        session: of this process.
        table: Iceberg's object of it.
        since: look at files alone that were written from then on, UTC; None for all.
    """
    location = table.location()
    place = urlparse(location)
    if place.scheme not in ("", "file"):
        return True
    left = set(_files(unquote(place.path), since))
    if not left or len(left) > MOST_FILES:
        return bool(left)
    try:
        for name in _named(session, table, left):
            left.discard(name)
    except _UnknownNamesError:
        return True
    return bool(left)


def _files(folder: str, since: datetime | None) -> Iterator[str]:
    """Paths within a folder, of files that Iceberg's action looks at too."""
    oldest = 0.0 if since is None else (since - timedelta(minutes=1) - _EPOCH).total_seconds()
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        within = os.path.relpath(parent, folder)
        for name in names:
            if _is_hidden(name) or os.stat(os.path.join(parent, name)).st_mtime < oldest:
                continue
            yield name if within == os.curdir else os.path.join(within, name)


def _is_hidden(name: str) -> bool:
    # a partition's folder is <column>=<value>
    return name.startswith((".", "_")) and "=" not in name


def _named(session: Foreign, table: Foreign, files: set[str]) -> Iterator[str]:
    """What the table's metadata names, by paths within its folder.

    Args:
        files: what is looked for. What is older than all of them isn't read.

    Raises:
        _UnknownNamesError: there are manifests of deletes.
    """
    iceberg = session._jvm.org.apache.iceberg
    joiner = iceberg.relocated.com.google.common.base.Joiner.on("\n")
    folder = _path(table.location()).rstrip("/") + "/"

    def within(location: str) -> str:
        return _path(location).removeprefix(folder)

    def each(locations: Foreign) -> list[str]:
        # as one text: each call of Java takes time
        return [within(location) for location in joiner.join(locations).split("\n")]

    yield from each(iceberg.ReachableFileUtil.metadataFileLocations(table, False))
    yield from each(iceberg.ReachableFileUtil.statisticsFilesLocations(table))
    io, specs, seen = table.io(), table.specs(), set[str]()
    for snapshot in table.snapshots().iterator():
        listing = snapshot.manifestListLocation()
        if listing is None:
            raise _UnknownNamesError
        if within(listing) not in files:
            continue
        yield within(listing)
        for manifest in snapshot.allManifests(io):
            name = within(manifest.path())
            if name in seen or name not in files:
                continue
            if str(manifest.content()) != "DATA":
                raise _UnknownNamesError
            seen.add(name)
            yield name
            paths = iceberg.ManifestFiles.readPaths(manifest, io, specs)
            try:
                yield from each(paths)
            finally:
                paths.close()


def _path(location: str) -> str:
    return "/" + location.removeprefix("file:").lstrip("/")
