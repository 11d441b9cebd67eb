"""A landing folder in an object store, by its URI: s3://, gs://, abfss://, hdfs://, or file://.

The store is read by pyarrow's own file systems: the driver and the workers have pyarrow anyway, and
no jar is needed. A login comes from where the store's own clients look for it (environment, files,
the machine's role), or from LANDING_OPTIONS.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.secrets import environment, redacted

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

OPTIONS = "LANDING_OPTIONS"  # environment variable with arguments of the file system, as JSON
URI = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE)
# scheme of a URI -> class of pyarrow.fs
FILE_SYSTEMS = {
    "s3": "S3FileSystem",
    "s3a": "S3FileSystem",
    "gs": "GcsFileSystem",
    "abfss": "AzureFileSystem",
    "hdfs": "HadoopFileSystem",
    "file": "LocalFileSystem",
}
LOCAL_SCHEME = "file"
WITH_FOLDERS = (LOCAL_SCHEME, "hdfs")  # others have names of objects alone


@dataclass(frozen=True)
class StoredObject:
    """One object of a store.

    Attributes:
        place: below the folder that was listed, with /.
        size: bytes when it was listed.
        changed_ns: when it was written, by the store's clock, ns.
        is_file: neither a link nor anything else that isn't read.
    """

    place: str
    size: int
    changed_ns: int
    is_file: bool = True


class ObjectStore:
    """The store that a landing URI names. It travels to the workers, which have pyarrow and nothing
    else of the project's libraries.

    Args:
        scheme: of the URI.
        options: arguments of its class in pyarrow.fs as JSON; they may hold secrets. "": none.
    """

    def __init__(self, scheme: str, options: str = "") -> None:
        self.scheme, self._options = scheme, options
        self._client: FileSystem | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStore, (self.scheme, self._options)

    @property
    def client(self) -> FileSystem:
        """The store's file system, with connections of its own.

        Raises:
            ValueError: an option that it doesn't have.
        """
        if self._client is None:
            import pyarrow.fs

            options: dict[str, Any] = json.loads(self._options) if self._options else {}
            kind = getattr(pyarrow.fs, FILE_SYSTEMS[self.scheme])
            if self.scheme == "hdfs":
                options = {"host": "default"} | options
            try:
                self._client = kind(**options)
            except TypeError as exc:
                raise ValueError(f"{OPTIONS} doesn't fit pyarrow.fs: {exc}.") from None
        return self._client

    @contextmanager
    def opened(self, uri: str) -> Iterator[Callable[[int], bytes]]:
        """Function that reads the next bytes of an object, at most so many.

        Raises:
            OSError: it can't be read, or another object took its place meanwhile.
        """
        path = path_of(uri)
        before = self.client.get_file_info(path)
        with self.client.open_input_stream(path, compression=None) as stream:
            yield stream.read
        after = self.client.get_file_info(path)
        # a large object comes by several requests
        if (before.size, before.mtime_ns) != (after.size, after.mtime_ns):
            raise OSError(f"{uri} was replaced while it was read. Run again.")

    def write(self, uri: str, content: bytes) -> None:
        """Write an object as it is; a store shows it once it is whole."""
        with self.client.open_output_stream(self._new(uri), compression=None) as stream:
            stream.write(content)

    def created(self, uri: str) -> NativeFile:
        """Stream that writes a gzip object. Where its writer fails an object may be left."""
        return self.client.open_output_stream(self._new(uri), compression="gzip")

    def copy(self, uri: str, to: str) -> None:
        """Copy an object within the store."""
        self.client.copy_file(path_of(uri), self._new(to))

    def _new(self, uri: str) -> str:
        path = path_of(uri)
        if self.scheme in WITH_FOLDERS:
            self.client.create_dir(path.rpartition("/")[0], recursive=True)
        return path


def objects_of(store: ObjectStore, uri: str, folder: str) -> list[StoredObject]:
    """All objects below a folder of a landing URI, in one listing.

    Raises:
        FileNotFoundError: there are none.
        ValueError: the store refuses, or can't be reached.
    """
    from pyarrow.fs import FileSelector, FileType

    root = f"{path_of(uri)}/{folder}"
    try:
        found = store.client.get_file_info(FileSelector(root, recursive=True))
    except FileNotFoundError:
        raise
    except OSError as exc:
        reason = redacted(str(exc)).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"The landing folder {redacted(uri)} can't be listed: {reason}. The store's own "
            f"variables, or {OPTIONS}, set its login and its address."
        ) from None
    local = store.scheme == LOCAL_SCHEME
    return [
        StoredObject(
            info.path[len(root) :].lstrip("/"),
            info.size or 0,
            info.mtime_ns or 0,
            # as in a folder, links aren't followed
            info.type == FileType.File and not (local and _is_linked(info.path, root)),
        )
        for info in found
        if info.type != FileType.Directory
    ]


def delete_folder(store: ObjectStore, uri: str) -> None:
    """Delete all objects below a folder; none may be there."""
    from pyarrow.fs import FileType

    path = path_of(uri)
    if store.client.get_file_info(path).type == FileType.Directory:
        store.client.delete_dir(path)


def is_uri(landing: str) -> bool:
    """Whether a landing folder is named by a URI.

    >>> is_uri("s3://bucket/landing"), is_uri("landing")
    (True, False)
    """
    return URI.fullmatch(landing) is not None


def landing_place(root: str, landing: str) -> str:
    """A landing folder as an absolute path, or its URI without a / at the end.

    Args:
        root: folder that relative paths count from.
    """
    if is_uri(landing):
        return landing.rstrip("/")
    return os.path.abspath(os.path.join(root, os.path.expanduser(landing)))


def store_of(uri: str) -> ObjectStore:
    """The store of a landing URI.

    Raises:
        ValueError: pyarrow has no such store, or LANDING_OPTIONS is no JSON object.
    """
    found = URI.fullmatch(uri)
    scheme = found[1].lower() if found else ""
    if scheme not in FILE_SYSTEMS:
        raise ValueError(
            f"LANDING must be a folder, or a URI that begins with one of {', '.join(FILE_SYSTEMS)} "
            f"and ://, got {redacted(uri)}."
        )
    options = environment("LANDING_OPTIONS") or ""
    try:
        is_object = not options or isinstance(json.loads(options), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise ValueError(
            f"{OPTIONS} must be a JSON object of arguments of pyarrow.fs.{FILE_SYSTEMS[scheme]}, "
            'such as {"region": "eu-central-1"}.'
        )
    return ObjectStore(scheme, options)


def path_of(uri: str) -> str:
    """Path of a URI as pyarrow's file systems have it.

    >>> path_of("s3://bucket/landing"), path_of("file:///data/a b"), path_of("hdfs://name/data")
    ('bucket/landing', '/data/a b', '/data')
    >>> path_of("abfss://container@account.dfs.core.windows.net/landing")
    'container/landing'
    """
    found = URI.fullmatch(uri)
    if found is None:
        raise ValueError(f"{uri!r} is no URI")
    scheme, place = found[1].lower(), found[2]
    host, _, path = place.partition("/")
    if scheme in WITH_FOLDERS:
        return f"/{path}"
    return f"{host.partition('@')[0]}/{path}".rstrip("/")


def _is_linked(path: str, root: str) -> bool:
    real = os.path.realpath(root)
    return os.path.realpath(path) != real + path[len(root) :]
