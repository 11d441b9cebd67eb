"""Streams that a consumer appends or upserts, made of what changed in a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from dbt.adapters.sparksession.declared.declarations import DeclarationError, checked, name_problems
from dbt.adapters.sparksession.edges import Graph, Json, Node, Settings
from dbt.adapters.sparksession.iceberg.history import pinned_at, pinned_reads
from dbt.adapters.sparksession.reading.definitions import default_strategy
from dbt.adapters.sparksession.reading.ranges import values_of
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt.adapters.sparksession.yaml_fields import (
    Columns,
    Fields,
    NoColumns,
    RelationGiven,
    read_fields,
)
from dbt_common.exceptions import CompilationError
from pydantic import Field

NUMBER = "change_number"
NUMBER_PROPERTY = "stream.change_number"
OWN_NAMES = (ROW_KIND, NUMBER)


class StreamError(DeclarationError):
    """The arguments of a stream macro."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        example = f"{name}(rows=ref('x'), key='order_id', columns=['amount'])"
        super().__init__(name, problems, example)


@dataclass(frozen=True)
class Stream:
    """A stream macro's call.

    Attributes:
        keeps_removed: whether a removed key gives a tombstone.
        key: columns of the key.
        columns: further columns.
        sequence: columns that order the changes of a key; none where the rows are a state.
        key_types: the key's columns and their types, where known.
    """

    keeps_removed: bool
    key: tuple[str, ...]
    columns: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    key_types: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_columns(self) -> list[str]:
        """All columns that its rows have of the relation's."""
        return list(dict.fromkeys([*self.key, *self.columns, *self.sequence]))

    @property
    def values(self) -> list[str]:
        """Those of them that a tombstone doesn't have."""
        return [column for column in self.all_columns if column not in (*self.key, *self.sequence)]

    @property
    def near_keys(self) -> list[Json]:
        """Where rows of its keys lie, as arguments of PruningColumn."""
        return [values_of(name, kind) for name, kind in self.key_types.items()]


class StreamArguments(Fields):
    """What a stream macro takes."""

    NEEDED = ("rows", "key", "columns")

    rows: RelationGiven = None
    key: Annotated[Columns, Field(description="name columns")] = ()
    columns: Annotated[Columns, Field(description="name columns")] = ()
    sequence: Annotated[NoColumns | None, Field(description="name columns")] = None


def read_stream(
    given: Settings,
    model: Node,
    types: Mapping[str, str] | None,
    is_view: bool,
) -> Stream:
    """The stream that a macro's call asks for.

    Args:
        given: {form, rows, key, columns, sequence}.
        model: the model's node, whose config has to fit.
        types: column of the relation -> Spark type; None where that is unknown.
        is_view: whether the relation is a view of the project, not a folded model.

    Raises:
        StreamError: with every problem.
    """
    problems: list[str] = []
    form = given["form"]
    own = {name: given[name] for name in StreamArguments.model_fields}
    arguments = read_fields(StreamArguments, own, "", problems)
    rows, key, columns = arguments.rows, arguments.key, arguments.columns
    sequence = arguments.sequence or ()
    for column in {*key, *columns, *sequence} & set(OWN_NAMES):
        problems.append(f"{column}: columns of this name are the stream's own")
    problems += name_problems((*key, *columns, *sequence))
    config = model["config"]
    strategy = config.get("incremental_strategy") or default_strategy(config)
    if model["resource_type"] == "model" and (config["materialized"], strategy) != (
        "incremental",
        "append",
    ):
        problems.append(
            "the model's config must be config(materialized='incremental', "
            f"incremental_strategy='append'), got {config['materialized']!r} and {strategy!r}"
        )
    if types is not None and not problems:
        problems += [
            f"{rows.name_only.render()}: there is no column {column}; it has {', '.join(types)}"
            for column in (*key, *columns, *sequence)
            if column not in types
        ]
        if ROW_KIND in types and not sequence:
            problems.append(
                "rows have a row_kind, so they are a stream of retract rows: sequence must name "
                "the columns that order the changes of a key, such as the binlog position. A "
                "column of the data needs another name"
            )
        if ROW_KIND not in types and is_view:
            problems.append(
                f"{rows.name_only.render()} is a view without row_kind, so what changed in it "
                "is unknown; take the table or the folded model that it is made of"
            )
        if ROW_KIND not in types and sequence:
            problems.append(
                "rows are a state, each key once: leave sequence out, or name its columns in "
                "columns"
            )
    if problems:
        raise StreamError(form, problems)
    kinds = {name: types[name] for name in key} if types else {}
    return Stream(
        form == "upsert_stream",
        key,
        columns,
        sequence,
        key_types=kinds,
    )


class StreamModels:
    """Answers what the stream macros ask."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def declared_stream(self, model: Node, given: Json, graph: Graph) -> Stream:
        """The stream that a macro's call asks for; all problems are reported at once."""
        types, is_view = self._warehouse.types_and_view(given["rows"], model, graph)
        return checked(read_stream, given, model, types, is_view)

    def record_change_number(self, model: Node) -> int:
        """The number of the model's next commit, above those of all its others; the commit
        carries it. Offline it is 1."""
        if self._warehouse.credentials.offline or model["resource_type"] != "model":
            return 1
        history = self._warehouse.history(f"{model['schema']}.{model['alias']}")
        numbers = (snapshot.summary.get(NUMBER_PROPERTY) for snapshot in history.snapshots.values())
        number = 1 + max(map(int, filter(None, numbers)), default=0)
        inputs, properties = self._warehouse.inputs, {NUMBER_PROPERTY: str(number)}
        inputs.note_properties(model["unique_id"], properties)
        # what comes again is compared with what the stream has, which has to stay
        inputs.note_news(model["unique_id"], tolerates_replay=True)
        return number

    def check_kept(self, model: Node, stream: Stream, all_rows: Relation) -> None:
        """Look at whether the rows that a stream of a sequence has read are still there, where all
        of them come again. Rows that went with whole files, as by a retention, may be gone.

        Args:
            all_rows: its input, pinned.

        Raises:
            CompilationError: some have changed or gone: at a place that the stream has given it
                gives nothing else.
        """
        plan = self._warehouse.inputs.plan(model["unique_id"])
        text = all_rows.render()
        reads = [plan.reads[table] for table in sorted({table for table, _ in pinned_reads(text)})]
        if all(
            read.commits is not None
            and all(commit.adds_only or commit.only_removes for commit in read.commits)
            for read in reads
        ):
            return
        then: dict[str, int] = {}
        for read in reads:
            if read.recorded not in self._warehouse.input_history(read.table).snapshots:
                return  # what it was is nowhere any more
            then[read.table] = read.recorded
        session, names = self._warehouse.session(), [*stream.all_columns, ROW_KIND]
        before = f"select * from {pinned_at(text, then)}"
        if not {*names} <= {*session.sql(before).columns}:
            return
        columns = ", ".join(map(quoted, names))
        kept = "true" if stream.keeps_removed else f"{ROW_KIND} in ('+I', '+U')"
        (found,) = session.sql(
            f"select count(*) from (select {columns} from ({before}) where {kept} "
            f"except all select {columns} from {text})"
        ).collect()
        if found[0]:
            raise CompilationError(
                f"{model['name']}: {found[0]} rows of {all_rows.name_only.render()} that the "
                "stream has read have changed or gone since, and their places in it are taken: "
                "who follows it would keep the old values. Run it with --full-refresh, which "
                "begins a new stream."
            )
