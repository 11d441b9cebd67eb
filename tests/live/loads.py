"""Full loads beside a running log: Maxwell's own, and the project's command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.dbt_project import REPO
from tests.support.maxwell import Maxwell, place
from tests.support.mysql_server import MysqlClient, MysqlServer
from tests.support.warehouse import Warehouse


@dataclass
class _Asked:
    number: int  # of the row in maxwell.bootstrap
    starts: int  # of Maxwell until then
    end: tuple[int, int] | None = None  # of the binlog, when it was complete


class Bootstraps:
    """Loads that Maxwell is asked for.

    Maxwell states that a load is complete when it has sent all rows, which may be before the broker
    has them. So one during which, or soon after which, Maxwell ended is asked for again.

    Attributes:
        asked: how often Maxwell was asked.
    """

    def __init__(self, client: MysqlClient, maxwell: Maxwell) -> None:
        self.asked = 0
        self._client, self._maxwell = client, maxwell
        self._under_way: dict[str, _Asked] = {}

    def ask(self, table: str) -> None:
        database, name = table.split(".")
        self._client.execute(
            "insert into maxwell.bootstrap (database_name, table_name) "
            f"values ('{database}', '{name}')"
        )
        [(number,)] = self._client.query("select max(id) from maxwell.bootstrap")
        self._under_way[table] = _Asked(int(number or 0), self._maxwell.starts)
        self.asked += 1

    @property
    def are_done(self) -> bool:
        return not self._under_way

    def is_sending(self, table: str) -> bool:
        """Whether Maxwell reads the table, or has read it."""
        number = self._under_way[table].number
        [(began,)] = self._client.query(
            f"select started_at is not null from maxwell.bootstrap where id = {number}"
        )
        return began == "1"

    def tend(self) -> None:
        for table, item in list(self._under_way.items()):
            [(complete,)] = self._client.query(
                f"select is_complete from maxwell.bootstrap where id = {item.number}"
            )
            if complete != "1":
                continue
            if item.starts != self._maxwell.starts:
                self.ask(table)
            elif item.end is None:
                item.end = place(*self._client.query("show master status")[0][:2])
            elif self._maxwell.noted(self._client) >= item.end:
                del self._under_way[table]


class FullLoads:
    """`make full-load` of tables, one after the other; one that was killed is made again.

    Attributes:
        rows: table -> rows that were landed.
    """

    def __init__(self, warehouse: Warehouse, mysql: MysqlServer, log: Path) -> None:
        self.rows: dict[str, int] = {}
        self._log, self._left = log, list[str]()
        self._process: subprocess.Popen | None = None
        self._env = os.environ | warehouse.env | mysql.load_settings

    def ask(self, *tables: str) -> None:
        self._left += tables
        self.start()

    @property
    def are_done(self) -> bool:
        return not self._left

    def start(self) -> None:
        with self._log.open("w") as printed:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tools", "full-load", self._left[0]],
                env=self._env,
                cwd=REPO,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it and its Spark as kill -9 does."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def tend(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        printed = self._log.read_text()
        assert self._process.returncode == 0, printed[-3000:]
        rows = printed.rpartition(f" rows of {self._left[0]} landed in ")[0].split("\n")[-1]
        self.rows[self._left.pop(0)] = int(rows.replace(",", ""))
        self._process = None
        if self._left:
            self.start()
