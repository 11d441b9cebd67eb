"""Bloom filters of the keys that a table holds, so that only keys which may be there are looked up.

A filter is a folded table of bitmaps: a key's hash names one of them (a block) and some bits in it,
which are set once the key is there. A key with a bit that isn't set is new for sure. A key whose
bits are all set may be there, and is looked up: a filter spares work, it decides nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from dbt.adapters.sparksession.declared.declarations import name_problems
from dbt.adapters.sparksession.edges import Given, Graph, Json, Node
from dbt.adapters.sparksession.keyed.layout import WHOLE_NUMBERS
from dbt.adapters.sparksession.keyed.tables import FOLDED, KeyedTables, stored_table_of
from dbt.adapters.sparksession.read_plans import OwnCommits
from dbt.adapters.sparksession.reading.ranges import values_of
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt.adapters.sparksession.yaml_fields import Columns, Fields, read_fields
from dbt_common.exceptions import CompilationError
from pydantic import Field, StrictFloat, StrictInt

BLOCK_BITS = 32_768  # bits of one of Spark's bitmaps
FILTER_PROPERTY = "key_filter.shape"
COUNTS = ("came", "looked_up", "were_there")  # counts of a run of a deduplicated model
RATES = (0.0001, 0.1)
NEVER_WIDENED = {"string", "binary", "boolean", "date"}
EXAMPLE = "key_filter(rows=ref('x'), key='event_id', expected_keys=10000000)"


def hashed_kind(kind: str) -> str:
    """The type that values of a type are hashed as: the widest that a column of it may be altered
    to, since equal values of two types have two hashes.

    >>> hashed_kind("int"), hashed_kind("decimal(9,2)"), hashed_kind("string")
    ('bigint', 'decimal(38,2)', 'string')
    """
    if kind in WHOLE_NUMBERS:
        return "bigint"
    if kind in ("float", "double"):
        return "double"
    if kind.startswith("decimal("):
        return f"decimal(38,{kind.rstrip(')').split(',')[1].strip()})"
    return kind


def _hashed(column: str, kind: str) -> str:
    if kind in ("", *NEVER_WIDENED):
        return column
    value = f"try_cast({column} as {kind})"
    # -0.0 equals 0.0 and has another hash
    return f"({value} + cast(0 as double))" if kind == "double" else value


@dataclass(frozen=True)
class Shape:
    """How a filter is laid out.

    Attributes:
        key: columns of the key.
        blocks: how many bitmaps it has.
        hashes: how many bits each key sets in one of them.
        kinds: types that the key's columns are hashed as, see hashed_kind; () where they are not
            known: as they are.
    """

    key: tuple[str, ...]
    blocks: int
    hashes: int
    kinds: tuple[str, ...] = ()

    @classmethod
    def for_keys(
        cls, key: Sequence[str], expected_keys: int, rate: float, kinds: Sequence[str] = ()
    ) -> Shape:
        """The smallest one in which so many keys give that rate of false positives."""
        bits_per_key = -math.log(rate) / math.log(2) ** 2
        blocks = max(1, math.ceil(expected_keys * bits_per_key / BLOCK_BITS))
        return cls(tuple(key), blocks, max(1, round(bits_per_key * math.log(2))), tuple(kinds))

    @property
    def text(self) -> str:
        parts = {"key": self.key, "blocks": self.blocks, "hashes": self.hashes, "kinds": self.kinds}
        return json.dumps(parts, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Shape:
        parts = json.loads(text)
        kinds = tuple(parts.get("kinds", ()))
        return cls(tuple(parts["key"]), parts["blocks"], parts["hashes"], kinds)

    def hashes_as(self, kinds: Sequence[str]) -> bool:
        """Whether it hashes a key whose columns are hashed as those kinds as they are. Filters of
        before the kinds were stored hashed values by the types that these had."""
        return self.kinds == tuple(kinds) or (not self.kinds and set(kinds) <= NEVER_WIDENED)

    @property
    def _hash(self) -> str:
        kinds = self.kinds or [""] * len(self.key)
        parts = map(_hashed, map(quoted, self.key), kinds)
        return f"xxhash64({', '.join(parts)})"

    @property
    def block(self) -> str:
        """SQL expression over a row: the number of its key's block."""
        return f"pmod({self._hash}, {self.blocks})"

    @property
    def places(self) -> list[str]:
        """SQL expressions over a row: the bits that its key sets."""
        spread = f"xxhash64({self._hash})"
        first, step = f"({spread} & 32767)", f"((shiftright({spread}, 15) & 32767) | 1)"
        return [f"(({first} + {number} * {step}) & 32767)" for number in range(self.hashes)]


class FilterArguments(Fields):
    """What `key_filter` takes beside its rows."""

    key: Annotated[Columns, Field(description="name columns")] = ()
    expected_keys: Annotated[StrictInt, Field(ge=1, description="be a number above zero")] = 1
    false_positive_rate: Annotated[
        StrictFloat,
        Field(ge=RATES[0], le=RATES[1], description=f"be between {RATES[0]} and {RATES[1]}"),
    ] = RATES[0]


class KeyFilters:
    """Bloom filters of the keys that tables hold."""

    def __init__(self, warehouse: Warehouse, keyed: KeyedTables) -> None:
        self._warehouse = warehouse
        self._keyed = keyed

    def declared_filter(
        self,
        model: Node,
        rows: Relation,
        key: Given,
        expected_keys: Given,
        rate: Given,
        incremental: bool,
    ) -> Shape:
        """The shape of a filter model, which its next commit records.

        Args:
            rows: the relation whose keys it holds.

        Raises:
            CompilationError: wrong arguments, or what is stored has another shape.
        """
        problems: list[str] = []
        given = {"key": key, "expected_keys": expected_keys, "false_positive_rate": rate}
        arguments = read_fields(FilterArguments, given, "", problems)
        names = arguments.key
        if problems:
            raise CompilationError(f"key_filter: {'; '.join(problems)}. Example: {EXAMPLE}")
        shape = Shape.for_keys(names, arguments.expected_keys, arguments.false_positive_rate)
        if self._warehouse.credentials.offline or model["resource_type"] != "model":
            return shape
        shape = replace(shape, kinds=self._hashed_kinds(rows, names))
        stored = self._keyed.runs_history(model).recorded(FILTER_PROPERTY) if incremental else None
        if stored is None:
            pass
        elif replace(Shape.read(stored), kinds=()) == replace(shape, kinds=()) and Shape.read(
            stored
        ).hashes_as(shape.kinds):
            shape = Shape.read(stored)
        else:
            raise CompilationError(
                f"{model['name']}: the stored filter is {stored}, is declared as {shape.text}. "
                "Run it with --full-refresh."
            )
        self._warehouse.inputs.note_properties(model["unique_id"], {FILTER_PROPERTY: shape.text})
        return shape

    def _hashed_kinds(self, rows: Relation, names: Sequence[str]) -> tuple[str, ...]:
        """What columns of a relation are hashed as; "" of one that it doesn't have."""
        kinds = {
            column.column: column.dtype for column in self._warehouse.get_columns_in_relation(rows)
        }
        return tuple(hashed_kind(kinds.get(name, "")) for name in names)

    def key_filter_of(
        self, model: Node, name: str | None, key: Sequence[str], graph: Graph
    ) -> Json | None:
        """The filter of a model's keys: {shape, bitmaps, rows behind it}. None where all keys have
        to be looked up.

        The filter knows the keys that the model had when it was last built; rows that it got since
        then are reported. A filter that was made of rows which the model has lost, in another
        shape, or of a view of its rows, which may lack some or hold other keys, isn't used.

        Raises:
            CompilationError: no such filter is declared.
        """
        if name is None:
            return None
        nodes = (node for node in graph["nodes"].values() if node["resource_type"] == "model")
        node = next((node for node in nodes if node["name"] == name), None)
        if node is None or node["config"]["materialized"] != FOLDED:
            raise CompilationError(
                f"{model['name']}: filter must be the name of a folded model that is made by "
                f"key_filter, got {name!r}"
            )
        if node["depends_on"]["nodes"] != [model["unique_id"]]:
            return None
        table, own_table = stored_table_of(node), f"{model['schema']}.{model['alias']}"
        history, own = self._warehouse.history(table), self._warehouse.history(own_table)
        stored = history.recorded(FILTER_PROPERTY)
        covered = OwnCommits(table, history).last_read(own_table, own.uuid)
        if stored is None or covered is None or Shape.read(stored).key != tuple(key):
            return None
        own_relation = self._warehouse.relation_of(own_table)
        if not Shape.read(stored).hashes_as(self._hashed_kinds(own_relation, key)):
            return None
        behind = own.between(covered, own.head)
        if behind is None or not all(commit.adds_only for commit in behind):
            return None
        rows = None
        if behind:
            rows = (
                f"(select * from {own_table} with (`start-snapshot-id` = '{covered}', "
                f"`end-snapshot-id` = '{own.head}'))"
            )
        reading = f"{table} version as of {history.head}"
        return {
            "shape": Shape.read(stored),
            "bitmaps": self._keyed.folded_sql(node, history, reading),
            "behind": rows,
        }

    def near_values(self, relation: Relation, names: Sequence[str]) -> list[Json]:
        """Values that rows have in columns of a table, as arguments of PruningColumn."""
        kinds = {
            column.column: column.dtype
            for column in self._warehouse.get_columns_in_relation(relation)
        }
        missing = [name for name in names if name not in kinds]
        if missing:
            raise CompilationError(
                f"unseen_rows: {relation} has no column {', '.join(missing)}; the model has to "
                "keep the columns of key and same, by their names"
            )
        return [values_of(name, kinds[name]) for name in names]

    def unseen(self, model: Node, keys: Sequence[str], sql: str) -> str:
        """Text, for a `from`, of rows that a model doesn't have yet: its query is looked at as with
        new rows, and may leave out none of them but by their keys.

        Args:
            keys: columns by which they are looked up.
            sql: query that finds them.
        """
        if problems := list(name_problems(keys)):
            raise CompilationError(f"{model['name']}: unseen_rows: {'; '.join(problems)}.")
        text, inputs = f"(\n{sql}\n)", self._warehouse.inputs
        inputs.note_news_text(model["unique_id"], text)
        inputs.note_news(model["unique_id"], unseen_by=tuple(keys))
        return text

    def tell_duplicates(self, model: Node, counts: Mapping[str, int]) -> str:
        """A line of what a run found; the model's next commit records it too.

        Args:
            counts: came, looked_up and were_there, in keys.
        """
        properties = {f"deduplication.{name}": str(counts[name]) for name in COUNTS}
        self._warehouse.inputs.note_properties(model["unique_id"], properties)
        came, looked_up, known = (counts[name] for name in COUNTS)
        new = came - known
        rate = f"{(looked_up - known) / new:.4%}" if new else "none"
        return (
            f"{model['name']}: {came:,} keys came, {looked_up:,} were looked up, {known:,} of them "
            f"were there; false positives among new keys: {rate}"
        )
