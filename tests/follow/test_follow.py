"""`make follow`: news is published, failures are reported and tried again, changed files are
taken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, time
from pathlib import Path
from types import SimpleNamespace

import pytest
from dbt.adapters.sparksession import interrupts
from dbt.adapters.sparksession.java_process import why_ended
from pyspark import SparkContext

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT
from tools import follow
from tools.following import loop
from tools.following.builds import Builds
from tools.following.health import check
from tools.following.loop import Follower, Settings, StartAgainError, options_of

LOG = """
    import os


    def model(dbt, session):
        dbt.config(materialized="incremental")
        folder = dbt.meta["landing"] + "/topics/ids/partition=0"
        seen = set(dbt.snapshot_property("seen", "").split())
        names = sorted(set(os.listdir(folder)) - seen)
        if not names and dbt.is_incremental:
            return None
        dbt.set_snapshot_property("seen", " ".join(sorted(seen | set(names))))
        rows = []
        for name in names:
            for line in open(folder + "/" + name):
                if line.startswith("bad"):
                    raise ValueError("a bad line has landed")
                rows.append(("ids", int(line)))
        columns = "topic string, id bigint"
        return session.createDataFrame(rows, columns).selectExpr(
            "*", "timestamp_seconds(id) as event_time", "cast(null as string) as reject_reason"
        )
"""
FILES = {
    "dbt_project.yml": PROJECT,
    "models/_models.yml": """
        version: 2
        models:
          - name: ods_log
            config: {meta: {landing: LANDING}}
            columns: [{name: id, data_tests: [not_null]}]
    """,
    "models/ods_log.py": LOG,
    "models/ids.sql": """
        {{ config(materialized='incremental') }}
        select id from {{ new_rows(ref('ods_log')) }}
    """,
    "models/total.sql": "select count(*) as n, sum(id) as total from {{ ref('ids') }}",
}


SLEEPS = "import time; time.sleep(600)"


class Followed:
    """A small warehouse that is followed in the tests' own process."""

    def __init__(self, project: DbtProject, folder: Path) -> None:
        self.project, self.lines = project, []
        self.landing = folder / "landing"
        (self.landing / "topics" / "ids" / "partition=0").mkdir(parents=True)
        project.write(FILES | {"models/_models.yml": self.declared()})
        self.settings = Settings(project.root, project.profiles, folder / "follow")
        self.time, self.clock = datetime(2026, 3, 1, 12, 0, tzinfo=UTC), 0.0
        self.follower: Follower = None  # type: ignore[assignment]

    def declared(self) -> str:
        return FILES["models/_models.yml"].replace("LANDING", str(self.landing))

    def land(self, first: int, *lines: object) -> None:
        folder = self.landing / "topics" / "ids" / "partition=0"
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"ids+0+{first:010d}.jsonl").write_text(text)

    @contextmanager
    def following(self, **changes: object) -> Iterator[Follower]:
        """Within it the warehouse is followed, step by step."""
        settings = replace(self.settings, **changes)
        builds = Builds([*options_of(settings), "--threads", "1"], settings.select)
        with self.project._environment():
            self.follower = Follower(
                settings, builds, self.lines.append, lambda: self.time, lambda: self.clock
            )
            try:
                yield self.follower
            finally:
                interrupts.begin_again()
                self.follower._files.close()

    def total(self) -> list[dict[str, int]]:
        return self.project.query("select n, total from published.total")


@pytest.fixture
def followed(make_project: Callable[..., DbtProject], tmp_path: Path) -> Followed:
    return Followed(make_project({}), tmp_path)


def test_what_lands_is_published_and_an_idle_look_runs_no_dbt(followed: Followed) -> None:
    followed.land(0, 1, 2)
    with followed.following() as follower:
        assert follower.step()
        assert followed.total() == [{"n": 2, "total": 3}]
        assert "version 1: 2 changes in " in followed.lines[-1]

        follower._builds.build = None  # a build would fail
        assert not follower.step()
        assert not follower.step()
        del follower._builds.build

        followed.land(2, 10)
        assert follower.step()
        assert followed.total() == [{"n": 3, "total": 13}]
        assert "version 2: 1 changes in " in followed.lines[-1]
        # the time of the newest change is 10 s after 1970
        lag = (follower.health.published_at - datetime.fromtimestamp(10, UTC)).total_seconds()
        assert follower.health.lag == {"ids": lag}
        assert f"newest change {lag:,.1f} s before" in followed.lines[-1]
        assert (follower.health.cycles, follower.health.changes) == (2, 3)
        assert not follower.step()


def test_what_others_publish_between_two_builds_is_what_the_health_shows(
    followed: Followed,
) -> None:
    def shown() -> tuple[object, object]:
        parsed = json.loads((followed.settings.folder / "health.json").read_text())
        return parsed["version"], parsed["topics"]["ids"]["newest_change"]

    def at(seconds: int) -> str:
        return datetime.fromtimestamp(seconds, UTC).isoformat()

    followed.land(0, 1)
    with followed.following(port=0) as follower:
        follower.step()
        followed.land(1, 5)
        followed.project.run("build")
        followed.clock += loop.VERSION_SECONDS
        assert follower.step(), "a file has landed"
        assert shown() == (2, at(5))
        assert "version 2 stands: 0 changes in " in followed.lines[-1]

        followed.project.run("run-operation", "roll_back", "--args", "{version: 1}")
        assert not follower.step(), "its time has not come"
        assert shown() == (2, at(5))
        followed.clock += loop.VERSION_SECONDS
        assert not follower.step()
        assert shown() == (3, at(5))
        answer = urllib.request.urlopen(f"http://127.0.0.1:{follower.port}/metrics").read().decode()
        assert "\nbinlog_warehouse_version 3\n" in answer
        published = follower.health.published_at

        followed.project.run("build")
        followed.clock += loop.VERSION_SECONDS
        assert not follower.step()
        assert shown() == (4, at(5))
        assert follower.health.published_at > published
        assert followed.total() == [{"n": 2, "total": 6}]


def test_a_failed_build_is_reported_waited_for_and_tried_again(followed: Followed) -> None:
    followed.land(0, 1)
    with followed.following(port=0) as follower:
        follower.step()
        followed.land(1, "bad")
        assert follower.step()
        assert "failed, again in 5 s: ods_log" in followed.lines[-1]
        assert "a bad line has landed" in followed.lines[-1]
        assert check(followed.settings.folder) is None
        assert "1 builds failed" in check(followed.settings.folder, failures_allowed=0)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"http://127.0.0.1:{follower.port}/health")

        followed.land(1, 5)
        assert not follower.step(), "its time has not come"
        followed.clock += loop.BACK_OFF_SECONDS[0]
        assert follower.step()
        assert followed.total() == [{"n": 2, "total": 6}]
        answer = urllib.request.urlopen(f"http://127.0.0.1:{follower.port}/metrics").read().decode()
        assert "\nbinlog_warehouse_cycles_failed_total 1\n" in answer
        assert "\nbinlog_warehouse_cycles_failed_in_a_row 0\n" in answer
        assert '\nbinlog_warehouse_newest_change_timestamp_seconds{topic="ids"} 5\n' in answer
        parsed = json.loads((followed.settings.folder / "health.json").read_text())
        assert (parsed["version"], parsed["failed_in_a_row"], parsed["changes"]) == (2, 0, 2)


def test_what_a_failed_build_added_to_the_log_counts_and_is_published_by_the_next(
    followed: Followed,
) -> None:
    refusing = LOG.replace("cast(null as string)", "if(id < 0, 'a bad id', null)")
    bounded = "if(sum(id) < 7, sum(id), raise_error('too high'))"
    mended = "{{ config(materialized='table') }} " + FILES["models/total.sql"]
    failing = mended.replace("sum(id)", bounded)
    followed.project.write({"models/ods_log.py": refusing, "models/total.sql": failing})
    followed.land(0, 1)
    with followed.following() as follower:
        follower.step()
        followed.land(1, -5, 19)
        assert follower.step()
        assert "failed, again in 5 s: total" in followed.lines[-1]
        health = follower.health
        assert (health.changes, health.refused, health.version) == (3, 1, 1)
        assert health.newest == {"ids": datetime.fromtimestamp(1, UTC)}, "it isn't published yet"

        followed.project.write({"models/total.sql": mended})
        assert follower.step()
        assert (health.changes, health.refused, health.version) == (3, 1, 2)
        assert health.newest == {"ids": datetime.fromtimestamp(19, UTC)}
        assert health.lag == {"ids": (health.published_at - health.newest["ids"]).total_seconds()}
        assert "version 2: 0 changes in " in followed.lines[-1]


@pytest.mark.in_turn
def test_messages_that_typed_tables_refuse_count(followed: Followed) -> None:
    typed = """
            config:
              meta:
                source: {database: shop, table: o, primary_key: [id], columns: {id: bigint}}
                business_zone: "+00:00"
                cut_time_max_ahead_hours: 24
                batches: [live]
    """
    code = """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_rows(dbt.ref("ods_log")).selectExpr(
                "id", "string(id) as unique_key", "if(id < 0, 'a bad id', null) as reject_reason"
            )
    """
    declared = f"{followed.declared()}      - name: ods_typed{typed}"
    followed.project.write({"models/_models.yml": declared, "models/ods_typed.py": code})
    followed.land(0, 1, -5)
    with followed.following() as follower:
        assert follower.step()
        assert (follower.health.changes, follower.health.refused) == (2, 1)
        followed.land(2, -6, -7, 3)
        assert follower.step()
        followed.land(5, 4)
        assert follower.step()
        assert (follower.health.changes, follower.health.refused) == (6, 3)


def test_a_landing_folder_that_is_back_is_no_failure_any_more(followed: Followed) -> None:
    """Nothing is new then, so no build would take the failure back."""
    followed.land(0, 1)
    topics, away = followed.landing / "topics", followed.landing / "away"
    with followed.following() as follower:
        follower.step()
        topics.rename(away)
        assert follower.step()
        assert "failed, again in 5 s: No landing folder" in followed.lines[-1]
        assert "1 builds failed" in check(followed.settings.folder, failures_allowed=0)
        away.rename(topics)
        followed.clock += loop.BACK_OFF_SECONDS[0]
        assert not follower.step()
        assert (follower.health.in_a_row, follower.health.problem) == (0, None)
        assert follower.health.state == "idle"
        assert check(followed.settings.folder, failures_allowed=0) is None


def test_after_a_failed_build_another_is_made_though_all_looks_as_before_it(
    followed: Followed,
) -> None:
    """As where the file that made it fail is taken away: the log holds its messages."""
    followed.land(0, 1)
    with followed.following() as follower:
        follower.step()
        build = follower._builds.build
        follower._builds.build = lambda: replace(build(), problem="no memory")
        followed.land(1, 5)
        assert follower.step()
        assert "failed, again in 5 s: no memory" in followed.lines[-1]
        (followed.landing / "topics" / "ids" / "partition=0" / "ids+0+0000000001.jsonl").unlink()
        follower._builds.build = build
        followed.clock += loop.BACK_OFF_SECONDS[0]
        assert follower.step()
        assert follower.health.in_a_row == 0
        assert not follower.step()


def test_health_files_that_cannot_be_written_do_not_end_it(followed: Followed) -> None:
    """As on a full disk, where builds fail too; and where somebody took their folder away."""
    folder = followed.settings.folder
    followed.land(0, 1)
    with followed.following() as follower:
        follower.step()
        shutil.rmtree(folder)
        folder.write_text("no folder")
        followed.land(1, "bad")
        assert follower.step()
        assert "failed, again in 5 s: ods_log" in followed.lines[-1]
        folder.unlink()
        followed.land(1, 5)
        followed.clock += loop.BACK_OFF_SECONDS[0]
        assert follower.step()
        assert followed.total() == [{"n": 2, "total": 6}]
        assert check(folder, failures_allowed=0) is None


def test_a_java_that_does_not_end_is_killed_before_the_process_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPS], stdin=subprocess.PIPE) as java:
        gateway = SimpleNamespace(proc=java, shutdown=lambda: None)
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        monkeypatch.setattr(follow, "JAVA_SECONDS", 0.1)
        began: list[tuple[str, list[str]]] = []
        monkeypatch.setattr(os, "execv", lambda *words: began.append(words))
        follow.start_again(["follow"])
        assert java.poll() is not None
    assert began == [(sys.executable, [sys.executable, "-m", "tools", "follow"])]


def test_a_process_without_its_java_starts_again_when_its_time_has_come(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.land(0, 1)
    with followed.following() as follower:
        follower.step()
        followed.land(1, "bad")
        follower.step()
        ended = why_ended(52, "4g")
        monkeypatch.setattr(loop, "java_ended", lambda: ended)
        assert not follower.step(), "its time has not come"
        followed.clock += loop.BACK_OFF_SECONDS[0]
        with pytest.raises(StartAgainError):
            follower.step()
        assert f"{ended} Starting again" in followed.lines[-1]


def test_changed_files_of_the_project_are_taken_at_the_next_look(followed: Followed) -> None:
    followed.land(0, 1, 2)
    with followed.following() as follower:
        follower.step()
        followed.project.write({"models/total.sql": "select 7 as n, 8 as total"})
        assert follower.step()
        assert followed.total() == [{"n": 7, "total": 8}]

        followed.project.write({"models/total.sql": "select {{ no_such_macro() }} as n"})
        assert follower.step()
        assert "no_such_macro" in followed.lines[-1]
        assert not follower.step()
        # mended: it need not wait
        followed.project.write({"models/total.sql": FILES["models/total.sql"]})
        assert follower.step()
        assert followed.total() == [{"n": 2, "total": 3}]

        # Python keeps what it has imported
        for file in ("python_udfs/any.py", "helpers/__init__.py", "helper.py", "rates/any.py"):
            followed.project.write({file: "answer = 42\n"})
            with pytest.raises(StartAgainError):
                follower.step()
            (followed.project.root / file).unlink()
        assert not follower.step()


def test_code_that_was_imported_from_deep_below_and_edited_lets_the_process_begin_again(
    followed: Followed,
) -> None:
    counted = """
        from deep_code.below.added import added


        def model(dbt, session):
            dbt.config(materialized="incremental", on_definition_change="rebuild")
            return dbt.new_rows(dbt.ref("ids")).selectExpr(f"id + {added()} as id")
    """
    file = "deep_code/below/added.py"
    followed.project.write({"models/counted.py": counted, file: "def added():\n    return 0\n"})
    followed.land(0, 1)
    with followed.following() as follower:
        assert follower.step()
        followed.project.write({file: "def added():\n    return 10\n"})
        assert not follower.step()
        followed.land(1, 5)
        assert follower.step()
        assert "failed, again in 5 s: counted: " in followed.lines[-1]
        assert f"imports {file}, which was edited after" in followed.lines[-1]
        assert followed.project.query("select id from dw.counted") == [{"id": 1}]
        with pytest.raises(StartAgainError):
            follower.step()


def test_files_in_folders_that_the_project_names_in_packages_and_behind_links_are_taken(
    followed: Followed,
) -> None:
    project, package = followed.project, followed.settings.folder / "package"
    package.mkdir(parents=True)
    (package / "dbt_project.yml").write_text("name: rules\nversion: 1.0.0\nconfig-version: 2\n")
    (package / "macros").mkdir()
    rule = package / "macros" / "seven.sql"
    rule.write_text("{% macro seven() %}7{% endmacro %}")
    (project.root / "dbt_packages").mkdir()
    (project.root / "dbt_packages" / "rules").symlink_to(package)
    named = {
        "dbt_project.yml": f"{PROJECT}    model-paths: [models, more]\n",
        "packages.yml": f"packages: [{{local: {package}}}]",
        "more/named.sql": "select {{ rules.seven() }} as n, 1 as m",
    }
    project.write(named)
    with followed.following() as follower:
        assert follower.step()
        assert not follower.step()

        def published() -> dict[str, int]:
            return project.query("select n, m from published.named")[0]

        assert published() == {"n": 7, "m": 1}
        project.write({"more/named.sql": named["more/named.sql"].replace("1 as m", "2 as m")})
        assert follower.step()
        assert published() == {"n": 7, "m": 2}
        rule.write_text("{% macro seven() %}8{% endmacro %}")
        assert follower.step()
        assert published() == {"n": 8, "m": 2}
        assert not follower.step()


@pytest.mark.parametrize("of_project", [True, False])
def test_the_business_day_is_that_of_the_projects_zone_from_the_first_look_on(
    followed: Followed, of_project: bool
) -> None:
    zone = {"business_zone": "-05:00"}
    declared = f"    vars: {json.dumps({'small': zone} if of_project else zone)}\n"
    followed.project.write({"dbt_project.yml": PROJECT + declared})
    followed.land(0, 1)
    followed.time = datetime(2026, 3, 2, 4, 59, tzinfo=UTC)
    with followed.following() as follower:
        assert follower.step()
        assert not follower.step()
        followed.time = datetime(2026, 3, 2, 5, 1, tzinfo=UTC)
        assert follower.step(), "another business day has begun"
        assert not follower.step()


def test_a_stop_lets_no_further_node_begin_and_gives_the_lease_back(followed: Followed) -> None:
    followed.land(0, 1)
    with followed.following() as follower:
        follower.step()
        followed.land(1, 2)
        build = follower._builds.build

        def stop_and_build() -> object:
            follower.stop()
            return build()

        follower._builds.build = stop_and_build
        follower.run()
        assert "version 1 stands" in followed.lines[-1]
    assert check(followed.settings.folder) is not None
    assert followed.total() == [{"n": 1, "total": 1}]
    assert followed.project.query("select run_id from dw.meta_lease") == [{"run_id": None}]
    with followed.following() as follower:
        follower.step()
    assert followed.total() == [{"n": 2, "total": 3}]


def test_maintenance_runs_once_a_day_in_its_window(followed: Followed) -> None:
    followed.land(0, 1)
    with followed.following(window=(time(3), time(4))) as follower:
        follower.step()
        asked = []
        follower._builds.operation = asked.append
        follower.step()
        assert asked == []
        followed.time = datetime(2026, 3, 1, 3, 30, tzinfo=UTC)
        follower.step()
        follower.step()
        assert asked == ["compact", "expire_versions"]
        followed.time = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
        follower.step()  # another day is news
        follower.step()
        assert asked == 2 * ["compact", "expire_versions"]
