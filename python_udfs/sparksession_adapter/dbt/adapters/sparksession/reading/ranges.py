"""Literal ranges of what a run touches, so that Iceberg opens only files that may hold it.

A semi join against touched keys gives the right rows, but its scan reads all files: they are left
out by literals alone. So a run asks beforehand which ranges its keys and times lie in.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from dbt.adapters.sparksession.edges import Foreign, Json, Node, Settings
from dbt.adapters.sparksession.keyed.layout import TIMES, WHOLE_NUMBERS
from dbt.adapters.sparksession.local_rows import as_local
from dbt.adapters.sparksession.session import checkpointed, is_remote
from dbt.adapters.sparksession.session_values import zone_of
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.warehouse import Warehouse

RANGE_COUNT = 64  # of one column at most: the gaps between them are the widest gaps
# single values of one column at most: Iceberg leaves out files by an `in` of up to 200
VALUE_COUNT = 150
LARGEST = 2**63 - 1  # of a whole number
WRITING = ("run", "build", "retry")  # commands
BROADCAST_BYTES = 10 << 20  # Spark's own threshold
NESTED_BYTES = 100  # of a text, taken to be in a row
PARTS = 512  # into which a column's values are cut to find the gaps
DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
NUMBER = "decimal(38, 10)"  # holds the values of all these types as numbers
DIGITS, SCALE = 28, 10
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# low and high, None where there is no bound
Range = tuple[Decimal | None, Decimal | None]  # a side without a bound is None
Bounds = tuple[Decimal, Decimal]


@dataclass(frozen=True)
class PruningColumn:
    """A column that is to be searched where rows may have a partner.

    Attributes:
        column: SQL text of the column that the condition is about.
        kind: type of the bounds.
        low, high: SQL expressions over the rows: the column lies between them. None where it
            has no bound; nor has it for a row where the expression is null.
        known: column of the rows; a row where it is null has no partner. None if each row
            may have one.
        nulls: whether a column that is null may be a partner's too.
    """

    column: str
    kind: str
    low: str | None
    high: str | None
    known: str | None = None
    nulls: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether it is of a type whose order files are pruned by."""
        decimal = DECIMAL.fullmatch(self.kind)
        if decimal is None:
            return self.kind in (*WHOLE_NUMBERS, *TIMES)
        digits, scale = map(int, decimal.groups())
        return digits - scale <= DIGITS and scale <= SCALE

    @property
    def is_value(self) -> bool:
        """Whether the rows tell values of the column, not bounds: a null is one of them."""
        return self.low == self.high

    @property
    def is_there(self) -> str:
        """SQL condition: a row may have a partner."""
        return f"{self.known} is not null" if self.known else "true"

    def number(self, value: str | None) -> str:
        """SQL of a bound as a number."""
        typed = f"cast({value or 'null'} as {self.kind})"
        if self.kind == "date":
            typed = f"unix_date({typed})"
        elif self.kind in TIMES:
            typed = f"unix_micros(cast({typed} as timestamp))"
        return f"cast({typed} as {NUMBER})"

    def literal(self, value: Decimal) -> str | None:
        """A number as SQL of the bounds' type; None where Python has no such time."""
        if self.kind not in TIMES:
            text = f"{value:f}"
            whole = text.split(".")[0]
            return whole if self.kind in WHOLE_NUMBERS else f"cast('{text}' as {self.kind})"
        try:
            if self.kind == "date":
                return f"date '{(EPOCH + timedelta(days=int(value))).date()}'"
            time = (EPOCH + timedelta(microseconds=int(value))).replace(tzinfo=None)
        except OverflowError:
            return None
        zone = "Z" if self.kind == "timestamp" else ""  # whatever zone the session has
        return f"{self.kind} '{time.isoformat(sep=' ')}{zone}'"


def values_of(name: str, kind: str, column: str | None = None) -> Json:
    """Arguments of PruningColumn: `column` (by default that of the name) has a value that the
    rows have in their column of this name, null too."""
    value = quoted(name)
    return {"column": column or value, "kind": kind, "low": value, "high": value, "nulls": True}


def bounds_query(rows: str, wanted: Sequence[PruningColumn]) -> str:
    """Query of the bounds that the rows ask for: place of the column, low, high, row_count.

    Of each column at most PARTS rows, each of the bounds that lie in one part of all of them; one
    more of place -1, which counts the rows.

    Args:
        rows: SQL text for a `from`.
    """
    extent, bounds = [], []
    for place, column in enumerate(wanted):
        low, high = column.number(column.low), column.number(column.high)
        first, last = f"extent.bounds__low_{place}", f"extent.bounds__high_{place}"
        there = f"filter (where {column.is_there})"
        extent.append(f"min({low}) {there} as bounds__low_{place}")
        extent.append(f"max({high}) {there} as bounds__high_{place}")
        width = f"((cast({last} as double) - cast({first} as double)) / {PARTS})"
        part = (
            f"if({last} > {first} and {width} > 0, "
            f"floor((cast({low} as double) - cast({first} as double)) / {width}), 0)"
        )
        bounds.append(
            f"named_struct('place', {place}, 'is_there', {column.is_there}, "
            f"'low', {low}, 'high', {high}, 'part', {part})"
        )
    nothing = f"cast(null as {NUMBER})"
    bounds.append(
        f"named_struct('place', -1, 'is_there', true, 'low', {nothing}, 'high', {nothing}, "
        "'part', 0L)"
    )
    each = ",\n    ".join(bounds)
    joined = ""
    if extent:
        columns = ",\n        ".join(extent)
        joined = f"\ncross join (\n    select\n        {columns}\n    from {rows}\n) as extent"
    return f"""select
    bound.place,
    min(bound.low) as low,
    max(bound.high) as high,
    count(*) as row_count
from {rows} as asking{joined}
lateral view explode(array(
    {each}
)) as bound
where bound.is_there
group by bound.place, bound.low is null, bound.high is null, bound.part"""


def merged_ranges(
    parts: Iterable[Bounds], most: int = RANGE_COUNT, least_gap: Decimal = Decimal(0)
) -> list[Bounds]:
    """At most so many ranges, lowest first, that hold all the parts; their gaps are the widest.

    Args:
        least_gap: parts that lie closer to each other become one range.

    >>> merged_ranges([(Decimal(5), Decimal(9)), (Decimal(1), Decimal(6))])
    [(Decimal('1'), Decimal('9'))]
    """
    held: list[Bounds] = []
    for low, high in sorted(parts):
        if low > high:  # of rows that end before they begin: nothing lies between
            continue
        if held and low <= held[-1][1] + least_gap:
            held[-1] = (held[-1][0], max(high, held[-1][1]))
        else:
            held.append((low, high))
    gaps = sorted(range(1, len(held)), key=lambda i: (held[i - 1][1] - held[i][0], i))
    starts = [0, *sorted(gaps[: most - 1]), len(held)]
    cuts = itertools.pairwise(starts)
    return [(held[start][0], held[end - 1][1]) for start, end in cuts if start < end]


def values_and_ranges(
    parts: Iterable[Bounds], most: int = RANGE_COUNT
) -> tuple[list[Decimal], list[Bounds]]:
    """Single values and ranges, both lowest first, that hold all the parts; the fewer, the better.

    Parts that lie close to each other, as the whole extent goes, become one range, and one range
    holds all where half of the extent would be held anyway.

    >>> values_and_ranges([(Decimal(n), Decimal(n)) for n in (1, 700, 1000)])
    ([Decimal('1'), Decimal('700'), Decimal('1000')], [])
    >>> values_and_ranges([(Decimal(n), Decimal(n + 4)) for n in range(0, 1000, 5)])
    ([], [(Decimal('0'), Decimal('999'))])
    """
    held = sorted({(low, high) for low, high in parts if low <= high})
    values = [low for low, high in held if low == high]
    if len(values) == len(held) <= VALUE_COUNT:
        return values, []
    extent = max(high for _, high in held) - held[0][0]
    held = merged_ranges(held, most, extent / PARTS)
    if sum(high - low for low, high in held) >= extent / 2:
        held = [(held[0][0], held[-1][1])]
    return [low for low, high in held if low == high], [item for item in held if item[0] < item[1]]


def widened(low: Decimal, high: Decimal) -> Bounds:
    """A range of whole numbers, a little wider: its bounds are the same for most ranges that are
    nearly the same, so that a run's query is often that of the run before.

    >>> widened(Decimal(11), Decimal(4998))
    (Decimal('0'), Decimal('5055'))
    """
    first, last = int(low), int(high)
    step = 1 << max(0, (last - first).bit_length() - 7)
    first, last = first // step * step, last // step * step + step - 1
    if first < -LARGEST or last > LARGEST:
        return low, high
    return Decimal(first), Decimal(last)


def ranges_condition(wanted: PruningColumn, parts: Sequence[Range], most: int = RANGE_COUNT) -> str:
    """SQL condition on the column, of at most so many ranges with both bounds, see
    values_and_ranges; "false" where there is nothing, "true" where it has no bound.

    Single values stand in a list: the code that Spark generates doesn't hold a list's values, so
    that the next run's values need no code of their own.
    """
    column = wanted.column
    has_none = (None, None) in parts
    if has_none and not wanted.is_value:
        return "true"
    conditions: list[Range] = []
    if lows := [low for low, high in parts if high is None and low is not None]:
        conditions.append((min(lows), None))
    if highs := [high for low, high in parts if low is None and high is not None]:
        conditions.append((None, max(highs)))
    known = ((low, high) for low, high in parts if low is not None and high is not None)
    values, ranges = values_and_ranges(known, most)
    if len(ranges) == 1 and not values and wanted.kind in WHOLE_NUMBERS:
        ranges = [widened(*ranges[0])]
    conditions += ranges
    texts = []
    listed = [wanted.literal(value) for value in values]
    if None in listed:
        return "true"
    if listed:
        only = ", null" if len(listed) == 1 else ""  # else Spark makes a comparison of it
        texts.append(f"{column} in ({', '.join(map(str, listed))}{only})")
    for bounds in conditions:
        low, high = (None if bound is None else wanted.literal(bound) for bound in bounds)
        if low is None and high is None:
            return "true"
        if low is None or high is None:
            texts.append(f"{column} {'>=' if high is None else '<='} {low or high}")
        else:
            texts.append(f"{column} between {low} and {high}")
    if wanted.nulls and (has_none or not wanted.is_value):
        texts.append(f"{column} is null")
    return f"({' or '.join(texts)})" if texts else "false"


def row_bytes(schema: Foreign) -> int:
    """About how many bytes a row of a Spark schema takes."""
    return sum(8 if is_plain(field.dataType) else NESTED_BYTES for field in schema.fields)


def is_plain(kind: Foreign) -> bool:
    """Whether a Spark type is of one size."""
    return kind.typeName() not in ("string", "binary", "array", "map", "struct", "variant")


class ColumnRanges:
    """Keeps the rows that a run touches, and finds the ranges that they lie in."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        # thread and name that materialize_once gave it -> how many rows, where Spark's driver holds
        # them; another thread may build a model of the same alias in another schema
        self._local: dict[tuple[int, str], int | None] = {}

    def materialize_once(self, model: Node, name: str, sql: str) -> str:
        """Name of a temporary view of a query's rows, which are computed once and kept until the
        model is built; they spill to disk.

        The plan that made them is cut off: each further query would plan it again. What Spark
        would know their size by it gets it: few rows are sent to where others match them, and a
        query leaves out what none can match.
        """
        view = f"{model['alias']}__{name}".lower()
        session = self._warehouse.session()
        self._warehouse.inputs.note_zone(model["unique_id"], zone_of(session))
        rows = checkpointed(session.sql(sql), eager=False)
        building = self._warehouse.inputs.building(model["unique_id"])
        building.kept[view] = rows
        local = as_local(rows)
        rows, count = (rows, rows.count()) if local is None else local
        building.kept_counts[view] = count
        self._local[threading.get_ident(), f"`{view}`"] = None if local is None else count
        is_small = count * row_bytes(rows.schema) <= BROADCAST_BYTES
        (rows.hint("broadcast") if is_small else rows).createOrReplaceTempView(view)
        return f"`{view}`"

    def is_by_chance(self, sql: str) -> bool:
        """Whether a query gives other rows each time that it is run, as with rand(). On a remote
        session, which shows no plan, it counts as one that doesn't."""
        session = self._warehouse.session()
        if is_remote(session):
            return False
        return not session.sql(sql)._jdf.queryExecution().analyzed().deterministic()

    def computed_once(self, model: Node, name: str, sql: str, keeps: bool) -> str:
        """SQL text, for a `from`, of a query's rows: kept under a name as by materialize_once, or,
        where nothing may be kept, the query itself."""
        return self.materialize_once(model, name, sql) if keeps else f"({sql})"

    def kept_count(self, model: Node, view: str) -> int:
        """How many rows materialize_once has kept under a name that it gave."""
        return self._warehouse.inputs.building(model["unique_id"]).kept_counts[view.strip("`")]

    def writes(self, flags: Foreign) -> bool:
        """Whether the command writes what it compiles; for others ranges are not asked for."""
        return flags.WHICH in WRITING and not self._warehouse.inputs.is_noting

    def pruning_condition(
        self, rows: str, wanted: Iterable[Settings], most: int = RANGE_COUNT
    ) -> Json:
        """What may be a partner of the rows: {"condition": SQL, "row_count": of the rows}.

        Runs one query, which answers with at most PARTS rows of two numbers for each column; the
        condition has at most `most` ranges of each, or a list of at most VALUE_COUNT values.
        Columns of a type without an order that files are pruned by (texts) give none.

        Args:
            rows: SQL text for a `from`.
            wanted: see PruningColumn.
        """
        columns = [
            column for column in (PruningColumn(**given) for given in wanted) if column.is_ordered
        ]
        row_count, parts = self._bounds_in(rows, columns)
        if not row_count:
            return {"condition": "false", "row_count": 0}
        if not columns:
            return {"condition": "true", "row_count": row_count}
        conditions = map(ranges_condition, columns, parts, itertools.repeat(most))
        return {"condition": " and ".join(conditions), "row_count": row_count}

    def literal_ranges(self, rows: str, wanted: Iterable[Settings]) -> list[list[tuple[str, str]]]:
        """Of each wanted column the ranges that the rows' bounds lie in, as SQL literals, lowest
        first; both bounds of each row must be known.

        Raises:
            OverflowError: Python has no such time.
        """
        columns = [PruningColumn(**given) for given in wanted]
        _, parts = self._bounds_in(rows, columns)
        found = []
        for column, bounds in zip(columns, parts, strict=True):
            known = [(low, high) for low, high in bounds if low is not None and high is not None]
            if len(known) < len(bounds):
                raise ValueError(f"{column.column}: both bounds of each row must be known")
            texts = []
            for low, high in merged_ranges(known):
                first, last = column.literal(low), column.literal(high)
                if first is None or last is None:
                    raise OverflowError(f"{column.column}: a bound lies outside of Python's years")
                texts.append((first, last))
            found.append(texts)
        return found

    def _bounds_in(
        self, rows: str, columns: Sequence[PruningColumn]
    ) -> tuple[int, list[list[Range]]]:
        """How many rows there are, and of each column the bounds that they ask for."""
        known_count = self._local.get((threading.get_ident(), rows))
        if known_count is not None:
            return known_count, self._bounds_of_each(rows, columns)
        row_count = 0
        parts: list[list[Range]] = [[] for _ in columns]
        for place, low, high, count in (
            self._warehouse.session().sql(bounds_query(rows, columns)).collect()
        ):
            if place < 0:
                row_count = count
            else:
                parts[place].append((low, high))
        return row_count, parts

    def _bounds_of_each(self, rows: str, columns: Sequence[PruningColumn]) -> list[list[Range]]:
        """Of each column the bounds of each row, where Spark's driver holds the rows."""
        texts = []
        for place, column in enumerate(columns):
            texts += [
                f"{column.is_there} as bounds__there_{place}",
                f"{column.number(column.low)} as bounds__low_{place}",
                f"{column.number(column.high)} as bounds__high_{place}",
            ]
        if not texts:
            return []
        asked = f"select {', '.join(texts)} from {rows} as asking"
        answers = self._warehouse.session().sql(asked).collect()
        found = []
        for place in range(len(columns)):
            bounds = (tuple(answer[3 * place : 3 * place + 3]) for answer in answers)
            found.append(list({(low, high) for is_there, low, high in bounds if is_there}))
        return found
