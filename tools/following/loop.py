"""The loop of `make follow`: look, build what is new, say it, wait."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from datetime import time as time_of_day
from pathlib import Path
from zoneinfo import ZoneInfo

from dbt.adapters.sparksession import interrupts
from dbt.adapters.sparksession.java_process import java_ended
from dbt.adapters.sparksession.reading.imported_code import has_edited_imports

from tools.following.builds import Build, BuildError, Builds, Published, one_line
from tools.following.health import Health, HealthFiles, memory_of
from tools.following.news import (
    Look,
    Messages,
    Stamp,
    business_day,
    code_files,
    messages_of,
    project_files,
)

LOOK_SECONDS = 1.0
VERSION_SECONDS = 5.0  # between two looks at what others have published
BACK_OFF_SECONDS = (5.0, 300.0)  # after the first failed build; at most
# begin and end, of times of the business day; it may go over midnight
Window = tuple[time_of_day, time_of_day]
MAINTENANCE = ("compact", "expire_versions")  # operations, in their order


@dataclass(frozen=True)
class Settings:
    """How the warehouse is followed.

    Attributes:
        root: the project's folder.
        profiles: folder of profiles.yml.
        folder: of the health files.
        select: dbt's --select of the builds; empty for the project's default selector.
        pause: least seconds between the beginnings of two builds.
        window: times of the business day between which maintenance may run; None for never.
        port: of 127.0.0.1 that answers for health; None for no port.
        cycles: builds after which it ends by itself; None where it goes on.
    """

    root: Path
    profiles: Path
    folder: Path
    select: tuple[str, ...] = ()
    pause: float = 0.0
    window: Window | None = None
    port: int | None = None
    cycles: int | None = None


class StartAgainError(Exception):
    """The process has to start again: Python code that it has imported was changed, or its Spark's
    Java has ended."""


def window_of(text: str) -> Window | None:
    """The window of maintenance that a text names; an empty one names none.

    >>> window_of("03:00-05:30")
    (datetime.time(3, 0), datetime.time(5, 30))

    Raises:
        ValueError: it is no window.
    """
    if not text.strip():
        return None
    try:
        begin, end = (time_of_day.fromisoformat(part.strip()) for part in text.split("-"))
        if begin.tzinfo is not None or end.tzinfo is not None:  # they are of the business zone
            raise ValueError
    except ValueError:
        raise ValueError(
            f"the window of maintenance must be two times of the day, got {text!r}. "
            "Example: 03:00-05:00"
        ) from None
    return begin, end


def is_within(window: Window, now: time_of_day) -> bool:
    """Whether a time lies in a window, which may go over midnight.

    >>> is_within((time_of_day(23), time_of_day(1)), time_of_day(0, 30))
    True
    """
    begin, end = window
    return begin <= now < end if begin <= end else now >= begin or now < end


def back_off(failed: int) -> float:
    """Seconds to wait after so many failed builds in a row.

    >>> [back_off(one) for one in (1, 2, 3, 20)]
    [5.0, 10.0, 20.0, 300.0]
    """
    first, most = BACK_OFF_SECONDS
    return min(most, first * 2 ** min(failed - 1, 20))


def zone_named(name: str) -> tzinfo:
    """The zone of a name or an offset, as the var business_zone gives it.

    >>> zone_named("+08:00").utcoffset(None)
    datetime.timedelta(seconds=28800)

    Raises:
        ValueError: it is none.
    """
    try:
        if name[:1] in "+-":
            hours, _, minutes = name[1:].partition(":")
            ahead = timedelta(hours=int(hours), minutes=int(minutes or 0))
            return timezone(ahead if name[0] == "+" else -ahead)
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise ValueError(
            f"the var business_zone must be a zone's name or an offset, got {name!r}. "
            "Example: +08:00"
        ) from None


class Follower:
    """Keeps a warehouse fresh.

    Args:
        settings: how.
        builds: dbt in this process.
        print_line: takes each line of output.
        now: the present moment.
        clock: seconds that pass.
    """

    def __init__(
        self,
        settings: Settings,
        builds: Builds,
        say: Callable[[str], object] = print,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._builds, self._say, self._now = settings, builds, say, now
        self._clock = clock
        self._stop = threading.Event()
        self.health = Health()
        self._files = HealthFiles(settings.folder, self.health, settings.port)
        self._code = code_files(settings.root)
        self._parsed: Mapping[str, Stamp] | None = None
        self._built: Look | None = None  # what the last good build could see when it began
        self._failed: Mapping[str, Stamp] | None = None  # project files of the build that failed
        self._try_at = 0.0
        self._began = 0.0
        self._maintained: date | None = None
        self._warned: tuple[str, ...] = ()
        self._zone: tzinfo = UTC
        # topic -> time of the newest change that builds have added since the last publication
        self._unpublished: dict[str, datetime] = {}
        self._versions: str | None = None  # see Builds.state_of_versions, as the health has it
        self._versions_at = 0.0  # when it was looked at

    @property
    def port(self) -> int | None:
        """The port that answers for health."""
        return self._files.port

    @property
    def is_building(self) -> bool:
        """Whether a command of dbt runs."""
        return self.health.state in ("building", "maintaining")

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """End after the nodes that are being built; any thread may ask for it."""
        self._stop.set()
        interrupts.begin_no_more()

    def run(self) -> int:
        """Follow until it is stopped; the exit code.

        Raises:
            StartAgainError: the process has to start again.
        """
        try:
            while not self._stop.is_set():
                self.step()
                if (
                    self._settings.cycles is not None
                    and self.health.cycles >= self._settings.cycles
                ):
                    break
                self._stop.wait(LOOK_SECONDS)
            stands = "no version is published"
            if self.health.version is not None:
                stands = f"version {self.health.version} stands"
            self._tell(f"stopped: {stands}")
            return 0
        finally:
            self._enter("stopped")
            self._files.close()

    def step(self) -> bool:
        """Look once, and build where there is news; whether a build was tried.

        Raises:
            StartAgainError: the process has to start again.
        """
        files = project_files(self._settings.root, self._settings.profiles)
        root = self._settings.root
        if code_files(root) != self._code or has_edited_imports(root):
            self._tell("Python code has changed: starting again")
            raise StartAgainError
        self._note_published()
        if self._failed is not None:
            if files == self._failed and self._clock() < self._try_at:
                return False
            self._failed = None  # its time has come, or somebody has mended the project
        elif self._clock() - self._began < self._settings.pause and self._built is not None:
            return False
        if (ended := java_ended()) is not None:
            self._tell(f"{ended} Starting again")
            raise StartAgainError
        try:
            self._parse(files)
            look = self._look(files)
        except (BuildError, OSError, ValueError, ConnectionError, RuntimeError) as exc:
            self._began = self._clock()
            self._fail(one_line(exc), files)
            return True
        if look == self._built:
            if self.health.in_a_row:  # what could not be looked at is there again, as it was
                self.health.in_a_row, self.health.problem = 0, None
                self._tell("nothing is new, and what failed is mended")
            self._maintain()
            return False
        self._cycle(look)
        return True

    # ---- looking -------------------------------------------------------------------------

    def _parse(self, files: Mapping[str, Stamp]) -> None:
        if files == self._parsed:
            return
        self._parsed = None
        self._builds.parse()
        self._parsed = files

    def _look(self, files: Mapping[str, Stamp]) -> Look:
        """What there is now."""
        credentials = self._builds.adapter.config.credentials
        self._zone = zone_named(str(self._builds.project_var("business_zone", "UTC")))
        messages = Messages({}, {})
        for log in self._builds.logs():
            found = messages_of(log.config.meta, self._settings.root, credentials)
            messages = Messages(
                {**messages.files, **found.files}, {**messages.offsets, **found.offsets}
            )
        return Look(messages, files, business_day(self._zone, self._now()))

    # ---- building ------------------------------------------------------------------------

    def _cycle(self, look: Look) -> None:
        """Build, and say what came of it."""
        self._enter("building")
        self._began = self._clock()
        before = self.health.version
        build = self._builds.build()
        self.health.seconds = self._clock() - self._began
        if self._stop.is_set() and build.problem is not None:
            self._tell("stopping: the build was ended, what it had finished stays")
            return
        self._warn(build)
        try:
            self._note_arrived(build)
        except Exception as exc:  # what it did stands, whatever is unknown of it
            self._tell(f"what the build added is unknown: {one_line(exc)}")
        if build.problem is not None:
            # what it finished isn't published: the next build has to, whatever it sees
            self._built = None
            self._fail(build.problem, look.project)
            return
        self.health.cycles += 1
        self.health.in_a_row, self.health.problem = 0, None
        lag = None
        try:
            lag = self._take_note()
        except Exception as exc:  # the version stands, whatever is unknown of it
            self._tell(f"what the build did is unknown: {one_line(exc)}")
        self._built = look
        self._enter("idle")
        self._tell_cycle(build, before, lag)

    def _note_published(self) -> None:
        """Now and then between two builds, let the health say what somebody else has published: a
        build or an operation of a person, or this process' own maintenance."""
        now = self._clock()
        if self._parsed is None or now - self._versions_at < VERSION_SECONDS:
            return
        self._versions_at = now
        try:
            versions = self._builds.state_of_versions()
            if versions == self._versions:
                return
            published = self._builds.published()
            if published is not None and published.version != self.health.version:
                self._take_version(published)
                for log in self._builds.logs():
                    if self._builds.holds_all(published, log):
                        self._take_changes(self._builds.newest_changes(log))
                self._files.write()
        except Exception:  # the next look or build reports what is wrong
            return
        self._versions = versions

    def _take_changes(self, changes: Mapping[str, tuple[datetime | None, int]]) -> None:
        """Let the health say which changes have come by what somebody else has published.

        Args:
            changes: see Builds.newest_changes.
        """
        for topic, (newest, _) in changes.items():
            at = None if newest is None else newest.replace(tzinfo=UTC)
            known = self.health.newest.get(topic)
            if at is not None and (known is None or at > known):
                self._take_newest(topic, at)

    def _note_arrived(self, build: Build) -> None:
        """Let the health count what a build added to the log, also where it failed behind that: the
        next build publishes it and adds it no second time."""
        health = self.health
        for log in self._builds.logs():
            added = build.added.get(log.name, 0)
            health.changes += added
            if not added:
                continue
            for topic, (newest, refused) in self._builds.newest_changes(log).items():
                health.refused += refused
                if newest is None:
                    continue
                at = newest.replace(tzinfo=UTC)
                self._unpublished[topic] = max(at, self._unpublished.get(topic, at))
        health.refused += self._builds.refused(build.added)

    def _take_note(self) -> float | None:
        """Let the health say what a build published; seconds from the newest change that came with
        it to its publication, where there is such a change."""
        versions = self._builds.state_of_versions()
        published = self._builds.published()
        if published is not None:
            self._take_version(published)
        self._versions = versions
        newest_lag = None
        for topic, at in self._unpublished.items():
            lag = self._take_newest(topic, at)
            if lag is not None:
                newest_lag = lag if newest_lag is None else min(lag, newest_lag)
        self._unpublished.clear()
        self.health.memory = memory_of(self._processes())
        return newest_lag

    def _take_version(self, published: Published) -> None:
        """Let the health say which version is the newest."""
        self.health.version = published.version
        self.health.published_at = published.published_at.replace(tzinfo=UTC)
        self.health.stale = published.stale

    def _take_newest(self, topic: str, at: datetime) -> float | None:
        """Let the health say which change of a topic is the newest that is published; seconds from
        it to its publication."""
        health = self.health
        health.newest[topic] = max(at, health.newest.get(topic, at))
        if health.published_at is None:
            return None
        health.lag[topic] = (health.published_at - at).total_seconds()
        return health.lag[topic]

    def _processes(self) -> list[int]:
        """Ids of this process and of its Java."""
        session = self._builds.adapter.services.warehouse.session()
        jvm = getattr(session, "_jvm", None)
        own = [os.getpid()]
        return own if jvm is None else [*own, jvm.java.lang.ProcessHandle.current().pid()]

    def _tell_cycle(self, build: Build, before: int | None, lag: float | None) -> None:
        health = self.health
        changes = sum(build.added.get(log.name, 0) for log in self._builds.logs())
        version = "no version"
        if health.version is not None:
            version = f"version {health.version}{' stands' if health.version == before else ''}"
        newest = f", newest change {lag:,.1f} s before" if lag is not None else ""
        self._tell(f"{version}: {changes:,} changes in {health.seconds:.1f} s{newest}")

    def _fail(self, problem: str, files: Mapping[str, Stamp]) -> None:
        health = self.health
        health.cycles += 1
        health.failed += 1
        health.in_a_row += 1
        health.problem = problem
        wait = back_off(health.in_a_row)
        self._failed, self._try_at = files, self._clock() + wait
        self._enter("waiting")
        self._tell(f"failed, again in {wait:.0f} s: {problem}")

    def _warn(self, build: Build) -> None:
        """Say warnings that the build before did not have."""
        for warning in build.warnings:
            if warning not in self._warned:
                self._tell(f"warning: {warning}")
        self._warned = build.warnings

    # ---- maintenance ---------------------------------------------------------------------

    def _maintain(self) -> None:
        """Once a day, in the window, while nothing is new."""
        if self.health.state != "idle":
            self._enter("idle")
        window, now = self._settings.window, self._now().astimezone(self._zone)
        if window is None or not is_within(window, now.time()):
            return
        if self._maintained == now.date() or self.health.version is None:
            return
        self._maintained = now.date()
        self._enter("maintaining")
        began = self._clock()
        try:
            for name in MAINTENANCE:
                if self._stop.is_set():
                    return
                self._builds.operation(name)
        except BuildError as exc:
            self._tell(f"maintenance failed, again tomorrow: {exc}")
        else:
            self._tell(f"maintenance: {', '.join(MAINTENANCE)} in {self._clock() - began:.1f} s")
        finally:
            self._enter("idle")

    # ---- saying --------------------------------------------------------------------------

    def _enter(self, state: str) -> None:
        self.health.state, self.health.since = state, datetime.now(UTC)
        self._files.write()

    def _tell(self, text: str) -> None:
        self._say(f"{self._now():%Y-%m-%d %H:%M:%SZ} {text}")


def options_of(settings: Settings) -> Sequence[str]:
    """Options that each command of dbt gets."""
    return ["--project-dir", str(settings.root), "--profiles-dir", str(settings.profiles)]
