"""What stands for dbt and the adapter while sqlfluff renders a model.

sqlfluff's jinja templater runs without dbt: each public name here is a name in the templates.
It knows ref, config, var, this and their like itself, and it loads the project's own macros;
those that ask the adapter are stubbed here instead (.sqlfluff leaves their folders out), and so
are the adapter's own macros.
"""

from __future__ import annotations

from typing import Any


class _Anything:
    """Stands for an object of dbt's: whatever is asked of it is empty text."""

    def __getattr__(self, name: str) -> _Anything:
        # jinja and copy ask for dunders to find out what an object is, jinja's sandbox for marks
        if name.startswith("__") or name in ("unsafe_callable", "alters_data"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> _Anything:
        return self

    def __str__(self) -> str:
        return ""


class _Graph:
    """An empty graph of nodes."""

    nodes: dict[str, Any] = {}
    sources: dict[str, Any] = {}


class _Counts:
    """The adapter's plans of counts."""

    def count_plan(self, declared: Any) -> dict[str, Any]:
        """No measures: a declaration is empty text here."""
        return {"sums": {}}


class _Ranges(_Anything):
    """The adapter's rows that are kept."""

    def computed_once(self, model: Any, name: str, sql: str, keeps: bool) -> str:
        """The query itself: nothing is kept here."""
        return f"({sql})"


class _Declarations(_Anything):
    """What the adapter looks up of declarations."""

    def declared_sources(self, graph: Any) -> list[dict[str, Any]]:
        """None: the graph is empty."""
        return []


class _Adapter(_Anything):
    """Stands for the adapter."""

    declarations = _Declarations()
    counts = _Counts()
    ranges = _Ranges()


execute = False
flags = _Anything()  # of the command
adapter = _Adapter()
api = _Anything()
exceptions = _Anything()
model = _Anything()
graph = _Graph()
context: dict[str, Any] = {}
results: list[Any] = []
invocation_id = "run"


def pinned(relation: Any) -> Any:
    """The relation's own name, as a `from` has it."""
    return relation


def new_rows(relation: Any) -> Any:
    """The relation's own name, as a `from` has it."""
    return relation


def new_changes(relation: Any, by: Any = None) -> Any:
    """See reading/new_changes.sql."""
    return relation


def runs_of(relation: Any) -> Any:
    """See reading/runs_of.sql."""
    return relation


def changed_partitions(relation: Any, by: str) -> Any:
    """The relation's own name, as a `from` has it."""
    return relation


def closed_periods(relation: Any, by: str, period: str, into: str) -> Any:
    """The relation's own name, as a `from` has it."""
    return relation


def closed_before(level: Any) -> str:
    """See reading/closed_before.sql."""
    return "cast(null as date)"


def order_chain() -> dict[str, Any]:
    """No declaration: what is made of it is stubbed."""
    return {}


def chain_links(chain: Any, from_cte: str) -> str:
    """Any query of the CTE."""
    return f"select * from {from_cte}"


def chain_suspects(chain: Any, changed_links: str, new_links: str) -> str:
    """Any query of both CTEs."""
    return f"select * from {changed_links}\nunion all\nselect * from {new_links}"


def chain_breaks(chain: Any, from_cte: str, suspects: str) -> str:
    """Any query of both CTEs."""
    return f"select * from {from_cte}\nunion all\nselect * from {suspects}"


def cleaned(model: Any, from_cte: str, columns: Any) -> str:
    """Any query of the CTE."""
    return f"select * from {from_cte}"


def cleaning_counts(from_ctes: Any) -> str:
    """Any query of the CTEs."""
    return "\nunion all\n".join(f"select * from {name}" for name in from_ctes)


def customer_versions(from_cte: str, orders: int, days: int) -> str:
    """Any query of the CTE."""
    return f"select * from {from_cte}"


def is_of_interest(table_model: str, count: Any = None) -> str:
    """See macros/changelog/is_of_interest.sql."""
    return "metadata_changes is null"


def as_read_by(relation: Any, reader: Any) -> Any:
    """The relation's own name, as a `from` has it."""
    return relation


def count_rows(count: Any, from_cte: str) -> str:
    """Any query of the CTE."""
    return f"select * from {from_cte}"


def compared(count: Any, got: str, expected: str, level: str = "totals") -> str:
    """Any query of both CTEs."""
    return f"select {got}.* from {got} cross join {expected}"


def reconciliation(
    count: Any, from_cte: str, level: str = "totals", reached_cte: str | None = None
) -> str:
    """Any query of the CTEs."""
    other = f" cross join {reached_cte}" if reached_cte else ""
    return f"select {from_cte}.* from {from_cte}{other}"


def repaired_join(left: Any, right: Any, on: Any, kind: str = "inner", **_: Any) -> str:
    """Any query of both relations."""
    sides = f"{left['relation']} as left_row\ncross join {right['relation']} as right_row"
    return f"select left_row.row_kind from {sides}"


interval_join = temporal_join = latest_join = history_join = repaired_join
asof_join = repaired_join
one_to_one_join = many_to_one_join = many_to_many_join = repaired_join


def join_index(relation: Any, key: Any, by: list[str]) -> str:
    """Any query of the relation."""
    return f"select {', '.join(by)} from {relation}"


def tumble(rows: Any, time: str, **_: Any) -> str:
    """Any query of the rows."""
    return f"select * from {rows}"


slide = cumulate = session = window_rejects = tumble


def upsert_stream(rows: Any, key: Any, columns: Any, sequence: Any = None) -> str:
    """Any query of the rows."""
    return f"select * from {rows}"


append_stream = upsert_stream


def beliefs(rows: Any, key: Any, columns: Any) -> str:
    """Any query of the rows."""
    return f"select row_kind from {rows}"


def as_known_at(rows: Any, at: Any) -> str:
    """The rows."""
    return str(rows)


def unseen_rows(rows: Any, key: Any, order_by: Any, **_: Any) -> str:
    """Any query of the rows."""
    return f"select * from {rows}"


def key_filter(rows: Any, key: Any, expected_keys: int, false_positive_rate: float = 0.001) -> str:
    """Any query of the rows."""
    return f"select * from {rows}"


def load_relation(relation: Any) -> Any:
    """There is none."""
    return None


def daily_cut(count: Any, from_cte: str) -> str:
    """Any query of the CTE."""
    return f"select * from {from_cte}"


def roll_up(count: Any, from_cte: str, of_column: str, into: str) -> str:
    """Any query of the CTE."""
    return f"select * from {from_cte}"


def to_date(count: Any, days: Any, months: Any = None, years: Any = None, as_of: Any = None) -> str:
    """Any query of the days."""
    return f"select * from {days}"


def event_rows(from_cte: str, **_: Any) -> str:
    """Any query of the events."""
    return f"select * from {from_cte}"


def metric_rows(metric: Any, from_cte: str) -> str:
    """Any query of the events."""
    return f"select * from {from_cte}"


def side_by_side(keys: Any, domains: dict[str, Any]) -> str:
    """Any query of all domains."""
    return " union all ".join(f"select * from {cte}" for cte in domains)


def placed_file_number(resets: Any) -> str:
    """See macros/chain/placed_file_number.sql."""
    return "binlog_file_number"


def _sql_text(value: Any) -> str:
    """The value as a text literal."""
    return f"'{value}'"


def typed_models() -> list[str]:
    """One typed model, by its name."""
    return ["ods_typed"]
