"""Full extracts of a table: what the macro extract_changes is given, and whether it may be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from dbt.adapters.sparksession.declared.declarations import DeclarationError, checked, name_problems
from dbt.adapters.sparksession.edges import Given, Graph, Json, Node, Settings
from dbt.adapters.sparksession.keyed.layout import is_ordered_type_name
from dbt.adapters.sparksession.keyed.tables import FOLDED
from dbt.adapters.sparksession.reading.ranges import values_of
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt.adapters.sparksession.yaml_fields import (
    Columns,
    Fields,
    RelationGiven,
    is_mapping,
    read_fields,
)
from dbt_common.exceptions import DbtRuntimeError
from pydantic import Field, StrictInt, StrictStr

FROM_EXTRACT = "from_extract"  # 1 of what an extract states, 0 of a change of the log
# columns of the macro's queries
HIDDEN = "extract__"
MOST_PROBLEMS = 10  # that a refusal lists
EXAMPLE = (
    "extract_changes(extracts={'rows': source('shop', 'product_extract'), 'complete': "
    "source('shop', 'product_extract_done'), 'id': 'extract_id', 'row_count': 'row_count'}, "
    "key='product_id', columns=['price'], sequence='taken_at', time='taken_at')"
)

Types = Mapping[str, str] | None  # column -> Spark type; None where that is unknown
ColumnName = Annotated[StrictStr | None, Field(min_length=1, description="name a column")]


class ExtractsError(DeclarationError):
    """The arguments of extract_changes, or the config of its model."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__("extract_changes", problems, EXAMPLE)


class ExtractsArgument(Fields):
    """The argument `extracts`."""

    NEEDED = ("rows", "complete", "id", "row_count")

    rows: RelationGiven = None
    complete: RelationGiven = None
    id: Annotated[StrictStr, Field(min_length=1, description="name a column")] = ""
    row_count: Annotated[StrictStr, Field(min_length=1, description="name a column")] = ""
    dated_by: ColumnName = None
    most_removed_percent: Annotated[
        StrictInt | None, Field(ge=0, le=100, description="be a whole number from 0 to 100")
    ] = None


class ExtractArguments(Fields):
    """What the macro takes beside `extracts` and `log`."""

    NEEDED = ("key", "columns", "sequence")

    key: Annotated[Columns, Field(description="name the columns of the key")] = ()
    columns: Annotated[Columns, Field(description="name columns")] = ()
    sequence: Annotated[
        Columns, Field(description="name columns that order extracts and changes")
    ] = ()
    time: ColumnName = None


@dataclass(frozen=True)
class Extracts:
    """A call of the macro extract_changes.

    Attributes:
        id: column of the extract's name, in its rows and in its declaration.
        row_count: column of the declaration: how many rows the extract has.
        key, columns: of the extract's rows.
        sequence: columns that order extracts and changes of the log.
        time: column that dates an extract, and a change of the log; None for none.
        dated_by: column of the rows that dates what an extract has, in place of its time.
        most_removed_percent: of the keys of the extract before it; None for any.
        has_log: whether there are changes of a log beside.
        id_kind: Spark type of the name; None where unknown.
        sequence_kinds: of the sequence's columns; none where unknown.
    """

    id: str
    row_count: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    sequence: tuple[str, ...]
    time: str | None
    dated_by: str | None = None
    most_removed_percent: int | None = None
    has_log: bool = False
    id_kind: str | None = None
    sequence_kinds: tuple[str, ...] = ()

    @property
    def images(self) -> list[str]:
        """Columns of a row that are compared from extract to extract."""
        dating = [self.dated_by] if self.dated_by else []
        return list(dict.fromkeys([*self.columns, *dating]))

    @property
    def row_columns(self) -> list[str]:
        """Columns that are read of the extracts' rows."""
        return list(dict.fromkeys([self.id, *self.key, *self.images]))

    @property
    def declared_columns(self) -> list[str]:
        """Columns that are read of the extracts' declarations."""
        dating = [self.time] if self.time else []
        return list(dict.fromkeys([self.id, self.row_count, *self.sequence, *dating]))

    @property
    def own_time(self) -> bool:
        """Whether the time is a column beside the sequence."""
        return self.time is not None and self.time not in self.sequence

    @property
    def wanted_rows(self) -> list[Json]:
        """Where the rows of extracts that are read lie, as arguments of PruningColumn."""
        if self.id_kind is None:
            return []
        return [values_of(f"{HIDDEN}id", self.id_kind, quoted(self.id))]

    @property
    def wanted_log(self) -> list[Json]:
        """Where the changes between touched extracts and those before them lie, likewise."""
        if not self.sequence_kinds:
            return []
        first = quoted(self.sequence[0])
        low = f"{HIDDEN}earlier_place.{first}"
        return [{"column": first, "kind": self.sequence_kinds[0], "low": low, "high": first}]


def read_extracts(given: Settings, model: Node, types: Mapping[str, Types]) -> Extracts:
    """The extracts that a macro's call declares.

    Args:
        given: {extracts, key, columns, sequence, time, log}.
        model: the model's node, whose config has to fit.
        types: of the relations `rows`, `complete` and `log`.

    Raises:
        ExtractsError: with every problem.
    """
    problems: list[str] = []
    own = {name: given[name] for name in ExtractArguments.model_fields}
    arguments = read_fields(ExtractArguments, own, "", problems)
    declared = given["extracts"]
    if not is_mapping(declared):
        raise ExtractsError([*problems, f"extracts must be a mapping, got {declared!r}"])
    extracts = read_fields(ExtractsArgument, declared, "extracts.", problems)
    if given["log"] is not None and not hasattr(given["log"], "render"):
        problems.append(f"log must be ref(..) or source(..), got {given['log']!r}")
    found = Extracts(
        id=extracts.id,
        row_count=extracts.row_count,
        key=arguments.key,
        columns=tuple(name for name in arguments.columns if name not in arguments.key),
        sequence=arguments.sequence,
        time=arguments.time,
        dated_by=extracts.dated_by,
        most_removed_percent=extracts.most_removed_percent,
        has_log=given["log"] is not None,
        id_kind=(types["rows"] or {}).get(extracts.id),
        sequence_kinds=tuple(
            kind for name in arguments.sequence if (kind := (types["complete"] or {}).get(name))
        ),
    )
    if not problems:
        problems += _name_problems(found) + _column_problems(found, types)
        if model["resource_type"] == "model":
            problems += _config_problems(model["config"], found)
    if problems:
        raise ExtractsError(problems)
    return found


def _name_problems(extracts: Extracts) -> list[str]:
    """What is wrong with the names that the rows of the macro get."""
    named = (*extracts.row_columns, *extracts.declared_columns, *filter(None, [extracts.dated_by]))
    problems = list(name_problems(named))
    placing = {*extracts.sequence, *([extracts.time] if extracts.time else [])}
    for name in extracts.row_columns + extracts.declared_columns:
        if name in (ROW_KIND, FROM_EXTRACT) or name.startswith(HIDDEN):
            problems.append(f"{name}: columns of this name are the macro's own")
    problems += [
        f"{name} is a column of the rows, and places or dates the extract; give one of them "
        "another name"
        for name in (*extracts.key, *extracts.columns)
        if name in placing
    ]
    if extracts.dated_by and not extracts.own_time:
        problems.append(
            "extracts.dated_by dates the rows in place of the extract's time: time must name a "
            "column that isn't one of sequence"
        )
    return problems


def _column_problems(extracts: Extracts, types: Mapping[str, Types]) -> list[str]:
    """Columns that a relation lacks, or has in another type than another relation."""
    dating = [extracts.time] if extracts.time else []
    placing = [*extracts.sequence, *dating]
    wanted = {
        "rows": extracts.row_columns,
        "complete": extracts.declared_columns,
        "log": [*extracts.key, *extracts.columns, ROW_KIND, *placing],
    }
    problems = []
    for relation, names in wanted.items():
        known = types[relation]
        if known is not None:
            problems += [
                f"{relation}: there is no column {name}; it has {', '.join(known)}"
                for name in dict.fromkeys(names)
                if name not in known
            ]
    shared = {
        ("rows", "complete"): [(extracts.id, extracts.id)],
        ("rows", "log"): [(name, name) for name in (*extracts.key, *extracts.columns)],
        ("complete", "log"): [(name, name) for name in dict.fromkeys(placing)],
    }
    if extracts.dated_by and extracts.time:
        shared["rows", "complete"].append((extracts.dated_by, extracts.time))
    for (left, right), pairs in shared.items():
        for name, its_name in pairs:
            kind, other_kind = (types[left] or {}).get(name), (types[right] or {}).get(its_name)
            if None not in (kind, other_kind) and kind != other_kind:
                problems.append(
                    f"{left}: {name} is {kind}, but {its_name} of {right} is {other_kind}; cast it"
                )
    problems += [
        f"rows: {name} is {kind}, of which no two can be compared; take a column of to_json(..)"
        for name, kind in (types["rows"] or {}).items()
        if name in extracts.images and not is_ordered_type_name(kind)
    ]
    return problems


def _config_problems(config: Settings, extracts: Extracts) -> list[str]:
    unique_key = config.get("unique_key")
    unique_key = [unique_key] if isinstance(unique_key, str) else list(unique_key or [])
    sequence = [*extracts.sequence, FROM_EXTRACT]
    kind = "zipper" if config.get("zipper") is not None else "fold"
    declared = dict(config.get(kind) or {})
    more = {"time": extracts.time} if kind == "zipper" and extracts.time else {}
    wanted = {"sequence": sequence, "row_kind": ROW_KIND} | more
    if (
        config.get("materialized") != FOLDED
        or unique_key != list(extracts.key)
        or any(declared.get(name) != value for name, value in wanted.items())
    ):
        return [
            f"the model's config must be config(materialized='{FOLDED}', "
            f"unique_key={list(extracts.key)}, {kind}={wanted}), where {kind} may have more"
        ]
    if kind == "zipper" and not extracts.time:
        return ["time must name the column that dates extracts, as the model is a zipper"]
    shown = {*sequence, *([extracts.time] if extracts.time else [])}
    shown -= {*declared.get("hidden_columns", [])}
    if kind == "fold" and shown:
        return [
            f"fold.hidden_columns must have {', '.join(sorted(shown))}: which of several extracts "
            "that have a row alike gave it depends on which came first"
        ]
    return []


class ExtractModels:
    """Answers what the macro extract_changes asks."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def declared_extracts(self, model: Node, given: Json, graph: Graph) -> Extracts:
        """The extracts that a macro's call declares; all problems are reported at once."""
        declared = given["extracts"] if is_mapping(given["extracts"]) else {}
        relations: dict[str, Given] = {
            "rows": declared.get("rows"),
            "complete": declared.get("complete"),
            "log": given["log"],
        }
        types = {
            name: self._warehouse.types_and_view(relation, model, graph)[0]
            for name, relation in relations.items()
        }
        self._warehouse.inputs.note_news(model["unique_id"], is_repaired=True)
        return checked(read_extracts, given, model, types)

    def declared_before(self, model: Node, complete: Relation) -> str | None:
        """The extracts that were declared when the model last read their declarations, as SQL; None
        where it never did, or no declaration has gone since. Only a model that keeps its rows
        (full_refresh: false) passes over those that go."""
        table = complete.name_only.render()
        read = self._warehouse.inputs.plan(model["unique_id"]).reads.get(table)
        if (
            read is None
            or read.recorded is None
            or model["config"].get("full_refresh") is not False
        ):
            return None
        if not any(commit.only_removes for commit in read.commits or ()):
            return None
        return f"(select * from {table} version as of {read.recorded})"

    def refuse(self, model: Node, problems: str) -> None:
        """Refuse the run where extracts, or their declarations, have problems.

        Args:
            problems: a query of their texts.

        Raises:
            DbtRuntimeError: with the first of them.
        """
        texts = sorted(row[0] for row in self._warehouse.session().sql(problems).collect())
        if not texts:
            return
        listed = "".join(f"\n  - {problem}" for problem in texts[:MOST_PROBLEMS])
        if len(texts) > MOST_PROBLEMS:
            listed += f"\n  - and {len(texts) - MOST_PROBLEMS} more"
        raise DbtRuntimeError(
            f"{model['name']}: its extracts can't be used. Nothing was written.{listed}\n"
            "Land the rest of an extract, or mend its rows or its declaration, and run again."
        )
