"""What there is to be built: looked up without dbt, so that an idle warehouse costs next to
nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from pathlib import Path
from typing import Any

import yaml
from dbt.adapters.sparksession.session import own_session

from python_udfs.ingestion.landing.files import list_files
from python_udfs.ingestion.landing.kafka import kafka_source
from python_udfs.ingestion.landing.object_stores import landing_place
from python_udfs.servers.kafka import broker_topics

# folders of a project that dbt parses, and its files beside them
PARSED = ("models", "macros", "tests", "seeds", "snapshots", "analyses", "functions")
PROJECT = "dbt_project.yml"
PARSED_FILES = (PROJECT, "selectors.yml", "packages.yml", "package-lock.yml", "dependencies.yml")
PROFILE = "profiles.yml"
PACKAGES = "packages-install-path"  # where the project has its packages, and where dbt puts them
PACKAGES_FOLDER = "dbt_packages"
CODE = ("python_udfs", "tools")  # folders of the project's own Python code
Stamp = tuple[int, int]  # ns of the last change, bytes


@dataclass(frozen=True)
class Messages:
    """What has landed, as far as it can be seen from outside.

    Attributes:
        files: absolute path -> its stamp.
        offsets: topic -> (its id, partition -> first offset behind its messages).
    """

    files: Mapping[str, Stamp]
    offsets: Mapping[str, tuple[str, Mapping[int, int]]]


@dataclass(frozen=True)
class Look:
    """What a build depends on, at one moment. Two looks that are equal have no news between them.

    Attributes:
        messages: what has landed.
        project: path -> stamp of each file that dbt parses.
        day: the business day.
    """

    messages: Messages
    project: Mapping[str, Stamp]
    day: date


def messages_of(log: Mapping[str, Any], root: Path, credentials: Any) -> Messages:
    """What has landed for a model of the log.

    Args:
        log: the model's meta, with `landing` (a folder, relative to the project, or a URI) and
            `kafka`.
        root: the project's folder.
        credentials: of the profile, for the session that asks a broker.

    Raises:
        OSError, ValueError, ConnectionError, RuntimeError: the folder or the broker can't be read.
    """
    landing, kafka = log.get("landing") or "", kafka_source(log.get("kafka") or {})
    found = list_files(landing_place(str(root), landing)) if landing or not kafka else []
    offsets = {}
    if kafka:
        for name, topic in broker_topics(own_session(credentials).session, kafka).items():
            ends = {partition: end for partition, (_, end) in topic.offsets.items()}
            offsets[name] = topic.topic_id, ends
    return Messages({file.path: (file.changed_ns, file.size) for file in found}, offsets)


def project_files(root: Path, profiles: Path) -> dict[str, Stamp]:
    """The files that dbt parses -> their stamps."""
    named = [root / parsed_file for parsed_file in PARSED_FILES] + [profiles / PROFILE]
    return _stamps(root, [*PARSED, *_declared_folders(root)], named)


def _declared_folders(root: Path) -> list[str]:
    """The folders that the project's own file names (`model-paths` and its kin), and that of its
    packages."""
    try:
        project = yaml.safe_load((root / PROJECT).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):  # dbt reports it when it parses
        project = None
    declared = project if isinstance(project, dict) else {}
    folders = [str(declared.get(PACKAGES) or PACKAGES_FOLDER)]
    for name, places in declared.items():
        if str(name).endswith("-paths") and isinstance(places, list):
            folders += [str(place) for place in places if place]
    return [folder for folder in folders if folder not in PARSED]


def code_files(root: Path) -> dict[str, Stamp]:
    """The files of Python code that the process, or a model in it, may import -> their stamps.

    A folder needs no __init__.py to be imported from.
    """
    packages = {path.parent.name for path in root.glob("[!.]*/*.py")} - {*PARSED, *CODE}
    found = _stamps(root, [*CODE, *sorted(packages)], root.glob("*.py"))
    return {path: stamp for path, stamp in found.items() if path.endswith((".py", ".sql", ".yml"))}


def _stamps(root: Path, folders: Sequence[str], files: Iterable[Path]) -> dict[str, Stamp]:
    paths, walked = [str(file) for file in files], set[str]()
    for folder in folders:
        # dbt follows links too: those to a package that lies beside the project, for instance
        for below, inside, names in os.walk(root / folder, followlinks=True):
            place = os.path.realpath(below)
            if place in walked:  # a link may go in a circle
                inside.clear()
                continue
            walked.add(place)
            inside[:] = [name for name in inside if name != "__pycache__" and name[0] != "."]
            paths += [os.path.join(below, name) for name in names if name[0] != "."]
    found = {}
    for path in paths:
        try:
            status = os.stat(path)
        except FileNotFoundError:  # an editor put another in its place
            continue
        found[path] = status.st_mtime_ns, status.st_size
    return found


def business_day(zone: tzinfo, now: datetime) -> date:
    """The business day of a moment."""
    return now.astimezone(zone).date()
