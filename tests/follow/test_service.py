"""`make follow` as a process of its own, on the sample: killed, stopped, started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.dbt_project import REPO
from tests.support.warehouse import Warehouse, differing, sample_days, truth

pytestmark = pytest.mark.soak
SEED = int(os.environ.get("KILL_SEED", "5"))
SELECTED = ("--select", "+dws_trade__user_status_td")
DAYS = 4  # at whose ends the process is killed while it builds
WAIT_SECONDS = 600


class Service:
    """`make follow` in a process of its own."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        self.warehouse, self.log = warehouse, folder / "follow.log"
        self.health = warehouse.target / "follow" / "health.json"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        env = {**os.environ, **self.warehouse.env}
        env |= {"DBT_PROFILES_DIR": str(REPO / "profiles"), "PYTHONUNBUFFERED": "1"}
        self.health.unlink(missing_ok=True)
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tools", "follow", "--maintenance", "", *SELECTED],
                cwd=REPO,
                env=env,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def reported(self) -> dict[str, object]:
        try:
            return json.loads(self.health.read_text())
        except (OSError, ValueError):
            return {"state": "", "version": None, "cycles": 0}

    def until(self, states: set[str], cycles: int = 0) -> None:
        """Wait until it is in one of the states and has built so often."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            reported = self.reported()
            if reported["state"] in states and reported["cycles"] >= cycles:
                return
            time.sleep(0.1)
        raise AssertionError(f"it did not become {states}: {self.log.read_text()[-3000:]}")

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)


def test_it_starts_again_when_its_java_is_killed(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    service = Service(warehouse, tmp_path)
    (_, before), (day, files) = sample_days()[:2]
    warehouse.land(*before)
    try:
        service.start()
        service.until({"idle"}, cycles=1)
        pid = service.process.pid
        warehouse.land(*files)
        service.until({"building"})
        time.sleep(5)
        for child in psutil.Process(pid).children():
            if child.name() == "java":
                child.kill()
        service.until({"waiting"})
        service.until({"idle"}, cycles=1)
        assert service.process.pid == pid
        assert service.end(signal.SIGTERM) == 0, service.log.read_text()[-3000:]
    finally:
        if service.process.poll() is None:
            service.process.kill()
    log = service.log.read_text()
    assert "was killed (SIGKILL)" in log
    assert "Starting again" in log
    assert differing(truth(day), warehouse.td("published.dws_trade__user_status_td")) == []


def test_killed_and_stopped_it_ends_at_the_servers_own_counts(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    print(f"KILL_SEED={SEED}")
    warehouse = Warehouse(tmp_path)
    service = Service(warehouse, tmp_path)
    days = sample_days()
    for _, files in days[:-DAYS]:
        warehouse.land(*files)
    try:
        service.start()
        service.until({"idle"}, cycles=1)
        for _, files in days[-DAYS:]:
            warehouse.land(*files)
            service.until({"building"})
            time.sleep(rng.uniform(0, 15))
            service.end(signal.SIGKILL)
            service.start()
        service.until({"idle"}, cycles=1)
        assert service.end(signal.SIGTERM) == 0, service.log.read_text()[-3000:]
    finally:
        if service.process.poll() is None:
            service.process.kill()
    assert "stopped: version " in service.log.read_text()
    assert service.reported()["state"] == "stopped"
    assert warehouse.query("select run_id from dw.meta_lease") == [{"run_id": None}]
    assert differing(truth(days[-1][0]), warehouse.td("published.dws_trade__user_status_td")) == []
