"""A small project whose versions are published, and what a store should hold then."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from dbt.adapters.sparksession.sql import literal

from tests.support.child import ChildProject
from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_warehouse import PROJECT

SEED = int(os.environ.get("PUBLISH_SEED", random.randrange(10**6)))
KILLS = int(os.environ.get("PUBLISH_KILLS", "2"))
EXPOSURE = """
          - name: {name}
            type: application
            owner: {{name: data}}
            depends_on: [ref('{model}')]
            config: {{meta: {{publish: {publish}}}}}
"""
MODELS = """
        version: 2
        sources:
          - name: raw
            schema: dw
            tables: [{name: facts}, {name: log}]
"""
# a table that is rebuilt, one written by partitions, an appended one, a folded one and a view;
# keys with null, and with texts that a collation takes for equal
FILES = {
    "dbt_project.yml": PROJECT,
    "models/facts_now.sql": """
        {{ config(materialized='table') }}
        select
            id, user_id, status, amount, day, is_paid, happened_at,
            array(status, cast(id as string)) as words, named_struct('a', id, 'b', status) as pair,
            cast(status as binary) as bytes, cast(id as double) / 8 as share
        from {{ source('raw', 'facts') }}
    """,
    "models/by_status.sql": """
        {{ config(
            materialized='incremental',
            incremental_strategy='replace_partitions',
            partition_by='day',
        ) }}
        select day, user_id, status, count(*) as n, sum(amount) as amount
        from {{ changed_partitions(source('raw', 'facts'), by='day') }}
        group by day, user_id, status
    """,
    "models/entries.sql": """
        {{ config(materialized='incremental') }}
        select id, user_id, kind, status from {{ new_rows(source('raw', 'log')) }}
    """,
    "models/latest.sql": """
        {{ config(
            materialized='folded',
            unique_key='user_id',
            fold={'sequence': 'id', 'row_kind': 'row_kind'},
        ) }}
        select coalesce(user_id, 0) as user_id, id, status, kind as row_kind
        from {{ new_rows(ref('entries')) }}
    """,
    "models/total.sql": """
        select status, sum(n) as n, cast(sum(amount) as decimal(30, 4)) as amount
        from {{ ref('by_status') }}
        group by status
    """,
}
# model -> what an exposure states of it
PUBLISHED: dict[str, dict[str, Any]] = {
    "facts_now": {"key": "id"},
    "by_status": {
        "table": "user_status",
        "key": ["day", "user_id", "status"],
        "types": {
            "mysql": {"user_id": "bigint unsigned", "status": "varchar(40)"},
            "postgres": {"status": "varchar(40)"},
        },
    },
    "entries": {"key": ["id"]},
    "latest": {},
    "total": {"key": ["status"]},
}
STATUSES = [
    None,
    "",
    "new",
    "New",
    "new ",
    "caf\u00e9",
    "\U0001f680 paid",
    "a\\b'c\"d\u2028",
    "x,y",
]
USERS = [None, 1, 2, 3, 2**63, 2**64 - 1]


def files(target: str, kind: str, **more: Any) -> dict[str, str]:
    """The project's files, which publish all models to a target.

    Args:
        kind: of the target.
        more: further keys of each exposure's `publish`.
    """
    exposures = "        exposures:"
    for model, own in PUBLISHED.items():
        publish = {"target": target, **own, "types": own.get("types", {}).get(kind, {}), **more}
        exposures += EXPOSURE.format(
            name=f"{model}_in_{target}", model=model, publish=json.dumps(publish)
        )
    return FILES | {"models/_models.yml": MODELS + exposures}


def tables() -> dict[str, str]:
    """Table of the store -> model."""
    return {own.get("table", model): model for model, own in PUBLISHED.items()}


def give_another_key(project: ChildProject) -> None:
    """Let the exposure of facts_now name a key of two columns."""
    path = project.inner.root / "models" / "_models.yml"
    text = path.read_text(encoding="utf-8")
    assert '"key": "id"' in text
    path.write_text(text.replace('"key": "id"', '"key": ["user_id", "id"]'), encoding="utf-8")


def make_sources(project: DbtProject) -> None:
    project.query("create namespace if not exists dw")
    project.query(
        "create table dw.facts (id bigint, user_id decimal(20, 0), status string, "
        "amount decimal(12, 2), day date, is_paid boolean, happened_at timestamp) "
        "using iceberg partitioned by (day)"
    )
    project.query(
        "create table dw.log (id bigint, user_id decimal(20, 0), kind string, status string) "
        "using iceberg"
    )


class Source:
    """Facts that come, change and go, and a log that grows: at random."""

    def __init__(self, project: DbtProject, seed: int) -> None:
        self.project, self.random = project, random.Random(seed)
        self.ids = self.logged = 0
        self.known: set[int] = set()
        make_sources(project)

    def change(self, facts: int = 12, entries: int = 6) -> None:
        """Let some facts come, half as many change and some go; the log gets entries."""
        known = sorted(self.known)
        gone = self.random.sample(known, min(len(known), facts // 3))
        changed = self.random.sample(known, min(len(known), facts // 2))
        if gone or changed:
            ids = ", ".join(map(str, {*gone, *changed}))
            self.project.query(f"delete from dw.facts where id in ({ids})")
        new = list(range(self.ids, self.ids + facts))
        self.ids += facts
        rows = sorted({*new, *changed} - set(gone))
        self.known = (self.known - set(gone)) | set(rows)
        self.project.query(f"insert into dw.facts values {', '.join(map(self._fact, rows))}")
        entries_now = range(self.logged, self.logged + entries)
        self.logged += entries
        self.project.query(f"insert into dw.log values {', '.join(map(self._entry, entries_now))}")

    def _fact(self, number: int) -> str:
        pick = self.random
        time = f"timestamp '2026-03-0{pick.randint(1, 9)} 23:59:59.{pick.randint(0, 999999):06}'"
        paid = pick.choice(("true", "false", "null"))
        amount = pick.choice(("null", f"{pick.randint(-(10**11), 10**11) / 100:.2f}"))
        day = f"date '2026-03-0{pick.randint(1, 5)}'"
        return (
            f"({number}L, {self._user()}, {self._status()}, {amount}, {day}, {paid}, "
            f"{pick.choice(('null', time))})"
        )

    def _entry(self, number: int) -> str:
        kind = self.random.choice(("'+I'", "'+U'", "'-D'"))
        return f"({number}L, {self._user()}, {kind}, {self._status()})"

    def _user(self) -> str:
        user = self.random.choice(USERS)
        return "null" if user is None else f"cast({user} as decimal(20, 0))"

    def _status(self) -> str:
        status = self.random.choice(STATUSES)
        return literal(status)


def expected(project: DbtProject) -> dict[str, list[tuple]]:
    """Table of the store -> the rows that the version has, each value as a text, sorted."""
    found = {}
    for table, model in tables().items():
        rows = project.query(f"select * from published.{model}")
        found[table] = sorted(tuple(map(as_text, row.items())) for row in rows)
    return found


def publishing(
    project: DbtProject, *command: str, printed: int | IO[bytes] = subprocess.DEVNULL
) -> subprocess.Popen:
    """dbt as a process group of its own, which publishes the newest version.

    Args:
        command: of dbt; publish_to without any.
        printed: where its output goes.
    """
    path = os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        project.command(*(command or ("run-operation", "publish_to"))),
        env={**os.environ, **project.env, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path},
        stdout=printed,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # a test that a shell started in the background inherits that SIGINT is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def kill(run: subprocess.Popen) -> None:
    """End a publication and its Java process as kill -9 does, unless it has ended by itself."""
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def stop_publication(run: subprocess.Popen, log: Path, sign: signal.Signals) -> str:
    """Stop a publication by a signal: it ends by one sentence; what it printed."""
    run.send_signal(sign)
    try:
        run.wait(60)
    finally:
        kill(run)
    text = log.read_text()
    assert run.returncode != 0, text
    name = "SIGTERM" if sign == signal.SIGTERM else "Ctrl-C"
    assert text.count(f"Stopped by {name}: ") == 1, text
    assert "Traceback" not in text, text
    return text


def build_without_publishing(project: ChildProject) -> None:
    """Build a version that no target receives."""
    kept = project.inner.env.pop("PUBLISH_TARGETS")
    project.run("build")
    project.inner.env["PUBLISH_TARGETS"] = kept


def as_text(item: tuple[str, Any]) -> tuple[str, str]:
    """A column's name and its value as a text that no other value has."""
    name, value = item
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, datetime):
        # those without zone are in UTC
        value = value.replace(tzinfo=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, bytes):
        value = value.hex()
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return name, "null" if value is None else f"={value}"
