"""What the window macros ask of a model: its window, what is stored, which windows are touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dbt.adapters.sparksession.declared.derived_configs import DERIVED, stated_config
from dbt.adapters.sparksession.declared.window_zones import date_sql
from dbt.adapters.sparksession.declared.windows import (
    DATE,
    END,
    EXAMPLES,
    START,
    STRATEGY,
    Window,
    WindowError,
    as_sql,
    read_window,
    spans_condition,
)
from dbt.adapters.sparksession.edges import Foreign, Json, Node
from dbt.adapters.sparksession.read_plans import ReadPlan, TouchedWindows
from dbt.adapters.sparksession.reading.changes import ChangeReads
from dbt.adapters.sparksession.reading.ranges import ColumnRanges
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND
from dbt.adapters.sparksession.session_values import zone_of
from dbt.adapters.sparksession.sql import quoted, unquoted
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.exceptions import CompilationError

WINDOW_PROPERTY = "window.definition"


class WindowModels:
    """Answers what the window macros ask."""

    def __init__(self, warehouse: Warehouse, changes: ChangeReads, ranges: ColumnRanges) -> None:
        self._warehouse = warehouse
        self._changes = changes
        self._ranges = ranges

    def declared_window(self, model: Node, given: Json) -> Window:
        """The window that a macro's call asks for; all problems are reported at once."""
        if not self._warehouse.credentials.offline:
            zone = zone_of(self._warehouse.session())
            self._warehouse.inputs.note_zone(model["unique_id"], zone)
        try:
            window = read_window(given)
            rows, form = given["rows"], given["form"]
            if isinstance(rows, str) or self._is_unknown(model, rows):
                return window
            types = {
                column.column: column.dtype
                for column in self._warehouse.get_columns_in_relation(rows)
            }
            problems = self._window_problems(model, window, rows, types)
            if problems:
                raise WindowError(form, problems)
            window = read_window(given | as_sql(window))
        except WindowError as exc:
            raise CompilationError(str(exc)) from exc
        kinds = {name: types[name] for name in window.key_names}
        return replace(window, time_type=types[unquoted(window.time)], key_types=kinds)

    def _is_unknown(self, model: Node, rows: Relation) -> bool:
        """Whether the columns of the rows are still unknown."""
        return (
            self._warehouse.credentials.offline
            or model["resource_type"] == "unit_test"
            or rows.is_cte
            or rows.reading is not None
        )

    def _window_problems(
        self, model: Node, window: Window, rows: Relation, types: Mapping[str, str]
    ) -> list[str]:
        name = rows.name_only.render()
        if not types:
            return [f"{name}: there is no such table or view; build it first"]
        problems = [
            f"{name}: there is no column {column}; it has {', '.join(types)}"
            for column in (unquoted(window.time), *window.key_names)
            if column not in types
        ]
        taken = [column for column in (START, END, DATE) if column in types]
        if taken and window.form != "window_rejects":
            problems.append(f"{name} has columns of the windows' own names: {', '.join(taken)}")
        if window.form == "session" and ROW_KIND in types:
            problems.append(
                f"{name}: it is a stream of retract rows, whose sessions aren't those of the rows "
                "that are left; take the folded model that keeps its current rows"
            )
        config = model["config"]
        if config.get("incremental_strategy") == STRATEGY and config.get("partition_by") not in (
            DATE,
            [DATE],
        ):
            problems.append(
                f"partition_by of a model of strategy {STRATEGY} must be '{DATE}' or be left out, "
                f"got {config.get('partition_by')!r}"
            )
        return problems

    def record_window(self, model: Node, window: Window, rows: Relation, incremental: bool) -> None:
        """Let the model's next commit say what its windows are.

        Raises:
            CompilationError: what is stored was cut otherwise, or of other rows.
        """
        if self._warehouse.credentials.offline:
            return
        zones = self._warehouse.inputs.plan(model["unique_id"]).window_zones
        self._warehouse.inputs.note(model["unique_id"], window_zones=zones | {window.zone})
        definition = f"{rows.name_only.render()} {window.definition}"
        if incremental:
            table = f"{model['schema']}.{model['alias']}"
            stored = self._warehouse.history(table).recorded(WINDOW_PROPERTY)
            if stored is None:  # nobody knows what the stored rows are
                self._warehouse.inputs.note_news(model["unique_id"], reads_whole=True)
            elif stored != definition:
                raise CompilationError(
                    f"{model['name']}: what is stored was cut into other windows: they were "
                    f"{stored}, are {definition}. Run it with --full-refresh."
                )
        properties = {WINDOW_PROPERTY: definition}
        self._warehouse.inputs.note_properties(model["unique_id"], properties)

    def derived_config(self, model: Node, config: Foreign) -> Json:
        """What a window macro writes into its model's config while dbt parses it, where it is
        missing there.

        Args:
            config: dbt's object of that name in a model that is parsed.
        """
        stated = stated_config(model, config) or {}
        if stated.get("incremental_strategy") != STRATEGY or stated.get("partition_by") is not None:
            return {}
        return {"partition_by": DATE, DERIVED: ["partition_by"]}

    def window_date(self, model: Node, columns: Iterable[str]) -> str | None:
        """SQL of the day in which a row's window begins, where the query of a model of strategy
        replace_windows leaves it out; None where it has it.

        Args:
            columns: of the query.

        Raises:
            CompilationError: it can't be found.
        """
        names = {name.lower() for name in columns}
        if DATE in names:
            return None
        missing = [name for name in (START, END) if name not in names]
        if missing:
            raise CompilationError(
                f"{model['name']}: its rows must have the columns of their window, but there is "
                f"no {', '.join(missing)}"
            )
        zones = sorted(self._warehouse.inputs.plan(model["unique_id"]).window_zones)
        if len(zones) != 1:
            found = f"lie in the zones {', '.join(zones)}" if zones else "are of no window macro"
            raise CompilationError(
                f"{model['name']}: its rows must have the column {DATE}, as its windows {found}"
            )
        return date_sql(START, zones[0])

    def near_spans(self, rows: str, low: str, high: str) -> str:
        """SQL condition on stored windows: they may meet one of the rows' spans of time.

        Args:
            rows: SQL text for a `from`.
            low, high: SQL expressions over them, timestamps.
        """
        wanted = [{"column": START, "kind": "timestamp", "low": low, "high": high}]
        spans = self._ranges.literal_ranges(rows, wanted)[0]
        return spans_condition(START, END, spans)

    def touch_windows(self, model: Node, window: Window, windows: str, dates: str) -> None:
        """Note for the strategy which windows the model rewrites.

        Args:
            windows: name of a view of them, by their unit.
            dates: query of the days in which they begin, or may begin.

        Raises:
            CompilationError: the stored rows don't tell their windows.
        """
        table = f"{model['schema']}.{model['alias']}"
        columns = self._changes.columns_at(table)
        missing = [column for column in (*window.unit, DATE) if column not in columns]
        if missing:
            raise CompilationError(
                f"{model['name']}: its rows must have the columns of their window, but there is "
                f"no {', '.join(missing)}; select them and run with --full-refresh"
            )
        days = sorted(
            row[0] for row in self._warehouse.session().sql(dates).collect() if row[0] is not None
        )
        literals = ", ".join(f"date '{day}'" for day in days)
        touched = TouchedWindows(
            view=windows,
            predicate=f"{DATE} in ({literals})" if literals else "false",
            same=" and ".join(
                f"held.{quoted(column)} <=> touched.{quoted(column)}" for column in window.unit
            ),
        )
        self._warehouse.inputs.note(model["unique_id"], windows=touched)

    def touched_windows(self, plan: ReadPlan) -> TouchedWindows:
        """What the strategy `replace_windows` replaces."""
        if plan.windows is None:
            raise CompilationError(
                f"{STRATEGY}: the model must read through a window macro over a relation, which "
                f"names the windows to replace. Example: {EXAMPLES['tumble']}"
            )
        return plan.windows
