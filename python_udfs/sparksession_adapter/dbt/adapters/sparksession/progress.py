"""A line now and then while a model works: how far Spark is."""

from __future__ import annotations

import threading
import time
from typing import Any

from dbt.adapters.events.logging import AdapterLogger

FIRST_AFTER, EVERY = 10.0, 10.0  # seconds

logger = AdapterLogger("Spark")


class Progress:
    """Reports every few seconds which share of its Spark tasks a node has done.

    Args:
        session: the thread's session; of Spark Connect there are no reports.
        node: the node's name, for the line.
    """

    def __init__(self, session: Any, node: str) -> None:
        self._context = getattr(session, "_sc", None)
        self._node, self._done = node, threading.Event()
        self._began = time.monotonic()
        if self._context is not None:
            # jobs of this thread are known by their group; cancelling one leaves others alone
            self._context.setJobGroup(node, node)
            threading.Thread(target=self._tell, name=f"progress of {node}", daemon=True).start()

    def stop(self) -> None:
        self._done.set()

    def _tell(self) -> None:
        if self._done.wait(FIRST_AFTER):
            return
        while True:
            line = self._line()
            if line:
                logger.info(line)
            if self._done.wait(EVERY):
                return

    def _line(self) -> str | None:
        assert self._context is not None
        tracker = self._context.statusTracker()
        total = completed = 0
        try:
            for job in tracker.getJobIdsForGroup(self._node):
                info = tracker.getJobInfo(job)
                if info is None or info.status != "RUNNING":
                    continue
                for stage in map(tracker.getStageInfo, info.stageIds):
                    if stage is not None:
                        total += stage.numTasks
                        completed += stage.numCompletedTasks
        except Exception:  # the application is going down; the node itself will report it
            return None
        if not total:
            return None
        seconds = time.monotonic() - self._began
        return f"{self._node}: {completed} of {total} tasks done, {seconds:.0f} s"
