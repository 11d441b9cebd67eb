"""A build on a terminal: a line a model, a bar with the time, tests as numbers, a table at the end.

dbt's own lines stay in logs/dbt.log. What macros print, warnings and errors are shown as they come.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

QUIET = ["--log-level", "none"]  # of dbt: this module shows what its screen would
BUILT = ("model", "seed", "snapshot")
LAYERS = ("seed", "ods", "snapshot", "dwd", "dws", "dqc", "meta")
LINE = "{:<44} {:>14} {:>14} {:>9}"
HEAD_CELLS = ("model", "rows read", "rows written", "seconds")
HEAD = LINE.format(*HEAD_CELLS)
SHOWN = 3  # nodes that the bar names


class Screen:
    """Shows the events of one dbt command; `take` is its callback."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.tests: Counter[str] = Counter()
        self._running: dict[str, str] = {}  # unique id -> name
        self._lock = threading.Lock()
        self._has_head = False
        self._listed: set[str] = set()  # models that have a line
        self._bar = Progress(
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            BarColumn(bar_width=20, table_column=Column(no_wrap=True)),
            # what is too long for the screen is cut here, never the numbers
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            console=console,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("reading the project", total=None)

    def __enter__(self) -> Screen:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def take(self, event: Any) -> None:
        """Show an event of dbt, from whatever thread it comes."""
        name, data = event.info.name, event.data
        with self._lock:
            if name == "ConcurrencyLine":
                self._bar.update(self._task, total=data.node_count)
            elif name == "LogStartLine":
                self._running[data.node_info.unique_id] = data.node_info.node_name
            elif name == "NodeFinished":
                self._finish(data.node_info, data.run_result)
            elif name == "SkippingDetails":
                self._bar.advance(self._task)
            elif name == "PrintEvent" and self._is_shown(event.info.msg):
                pass
            elif name == "PrintEvent" or event.info.level in ("warn", "error"):
                self._print(event.info.msg)
            self._describe()

    def refresh(self) -> None:
        """Draw the bar as it is now."""
        self._bar.refresh()

    def summary(self, results: Sequence[Any]) -> None:
        """Print what was built, a row a layer.

        Args:
            results: of dbt's nodes.
        """
        built: dict[str, list[Any]] = defaultdict(list)
        for result in results:
            node = result.node
            if node.resource_type in BUILT:
                layer = node.fqn[1] if node.resource_type == "model" else str(node.resource_type)
                built[layer].append(result)
        table = Table(title="What was built", title_justify="left", box=None, pad_edge=False)
        table.add_column("layer")
        for column in ("models", "failed or skipped", "rows written", "seconds"):
            table.add_column(column, justify="right")
        for layer in sorted(built, key=lambda name: (*LAYERS, name).index(name)):
            of_layer = built[layer]
            failed = sum(result.status != "success" for result in of_layer)
            rows = sum(rows_written(result.adapter_response) or 0 for result in of_layer)
            seconds = sum(result.execution_time for result in of_layer)
            cells = (f"{len(of_layer):,}", f"{failed:,}", f"{rows:,}", f"{seconds:.1f}")
            table.add_row(layer, *cells)
        if built:
            self.console.print()
            self.console.print(table)

    def _finish(self, node: Any, result: Any) -> None:
        self._running.pop(node.unique_id, None)
        self._bar.advance(self._task)
        if node.resource_type in ("test", "unit_test"):
            self.tests[result.status] += 1
        elif node.resource_type in BUILT:
            if not self._has_head:
                self._has_head = True
                self._print(HEAD)
            self._listed.add(node.node_name)
            response = result.adapter_response
            written = rows_written(response)
            read = dict(response).get("code") if written is not None else None
            self._print(
                LINE.format(
                    node.node_name,
                    f"{int(read):,}" if read else "-",
                    f"{written:,}" if written is not None else shown_status(node, result),
                    f"{result.execution_time:.1f}",
                )
            )

    def _is_shown(self, text: str) -> bool:
        """Whether a text is a line that the run's report prints of a model which has one here."""
        cells = text.split()
        of_model = len(cells) == len(HEAD_CELLS) and cells[0] in self._listed
        return of_model or cells == HEAD.split()

    def _describe(self) -> None:
        names = list(self._running.values())
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        parts = [", ".join(names[:SHOWN]) + more] if names else []
        passed, failed = self.tests["pass"], self.tests["fail"] + self.tests["error"]
        if self.tests:
            parts.append(f"{passed} tests passed" + (f", {failed} failed" if failed else ""))
        if parts:
            self._bar.update(self._task, description="; ".join(parts))

    def _print(self, text: str) -> None:
        # a text of the data is no markup, and nothing in it is a command to the terminal
        plain = "".join(sign if sign.isprintable() or sign in "\n\t" else " " for sign in text)
        self.console.print(Text(plain), highlight=False, soft_wrap=True)


def rows_written(response: Any) -> int | None:
    """Rows that the adapter reported; None of a view, or where nothing was built."""
    found = dict(response or {}).get("rows_affected")
    return None if found is None else int(found)


def shown_status(node: Any, result: Any) -> str:
    """What stands for the rows of a node that wrote none."""
    return "view" if str(result.status) == "success" else str(result.status)
