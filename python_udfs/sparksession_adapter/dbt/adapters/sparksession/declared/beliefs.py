"""Beliefs: what the rows of a relation were, by when the warehouse held them to be so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from dbt.adapters.sparksession.declared.declarations import DeclarationError, checked, name_problems
from dbt.adapters.sparksession.edges import Given, Graph, Json, Node, Settings
from dbt.adapters.sparksession.keyed.layout import is_ordered_type_name
from dbt.adapters.sparksession.keyed.tables import FOLDED, KeyedTables, stored_table_of
from dbt.adapters.sparksession.keyed.zippers import KNOWN_TIME, PERIODS
from dbt.adapters.sparksession.reading.definitions import ACCEPT, ON_CHANGE, Definitions
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt.adapters.sparksession.yaml_fields import Columns, Fields, RelationGiven, read_fields
from dbt_common.invocation import get_invocation_started_at
from pydantic import Field

TIME = "known_time"  # column of the time at which a run found a row to be so
TIME_PROPERTY = "beliefs.known_time"
DEFINITION_PROPERTY = "beliefs.definition"
OWN_NAMES = (ROW_KIND, TIME, *PERIODS[KNOWN_TIME])
ZIPPER = {"sequence": TIME, "row_kind": ROW_KIND, "period": KNOWN_TIME}
NEVER_KNOWN = datetime(1970, 1, 1, tzinfo=UTC)
EXAMPLE = (
    "beliefs(rows=ref('dim_product_price_zip'), key=['product_id', 'valid_from'], "
    "columns=['price', 'valid_to'])"
)
MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)?"
)


class BeliefsError(DeclarationError):
    """The arguments of the macro beliefs, or the config of its model."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        super().__init__(name, problems, EXAMPLE)


def moment_sql(given: Given) -> str:
    """A moment as a SQL literal of type timestamp.

    Args:
        given: '2026-03-02', '2026-03-02 16:00', '2026-03-02 16:00:00.5+03:00', or a date or a
            datetime, as YAML reads a var. UTC where no offset is given; a day is its first moment.

    Raises:
        ValueError: it is none.
    """
    text = given.isoformat() if isinstance(given, date) else given
    if not isinstance(text, str) or not MOMENT.fullmatch(text):
        raise ValueError(f"must be a moment such as '2026-03-02 16:00:00' (UTC), got {given!r}")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ValueError(f"must be a moment, got {text!r}: {exc}") from exc
    return literal_of(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def literal_of(moment: datetime) -> str:
    """A time with its zone as a SQL literal, which no zone of a session moves."""
    return f"timestamp'{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"


@dataclass(frozen=True)
class Beliefs:
    """A call of the macro beliefs.

    Attributes:
        rows: name of the relation.
        key: columns that distinguish its rows.
        columns: further columns; a change of others is no other belief.
    """

    rows: str
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def all_columns(self) -> list[str]:
        """The columns of a belief that are the relation's."""
        return list(dict.fromkeys([*self.key, *self.columns]))

    @property
    def definition(self) -> str:
        """What the stored beliefs are about, as JSON."""
        whole = {"rows": self.rows, "key": self.key, "columns": self.columns}
        return json.dumps(whole, separators=(",", ":"))


class BeliefsArguments(Fields):
    """What the macro takes."""

    NEEDED = ("rows", "key", "columns")

    rows: RelationGiven = None
    key: Annotated[Columns, Field(description="name the columns that distinguish its rows")] = ()
    columns: Annotated[Columns, Field(description="name columns")] = ()


def read_beliefs(
    given: Settings, model: Node, types: Mapping[str, str] | None, is_view: bool
) -> Beliefs:
    """The beliefs that a macro's call asks for.

    Args:
        given: {rows, key, columns}.
        model: the model's node, whose config has to fit.
        types: column of the relation -> Spark type; None where that is unknown.
        is_view: whether the relation is a view of the project, not a folded model.

    Raises:
        BeliefsError: with every problem.
    """
    problems: list[str] = []
    arguments = read_fields(BeliefsArguments, given, "", problems)
    rows, key, columns = arguments.rows, arguments.key, arguments.columns
    for column in {*key, *columns} & {*OWN_NAMES}:
        problems.append(f"{column}: columns of this name are the beliefs' own")
    problems += name_problems((*key, *columns))
    name = rows.name_only.render() if rows is not None else ""
    if types is not None and rows is not None:
        problems += [
            f"{name}: there is no column {column}; it has {', '.join(types)}"
            for column in (*key, *columns)
            if column not in types
        ]
        problems += [
            f"{name}: column {column} is {types[column]}, of which no two can be compared; give "
            "its model a column of to_json(..) to be believed instead"
            for column in (*key, *columns)
            if not is_ordered_type_name(types.get(column, ""))
        ]
        if ROW_KIND in types:
            problems.append(
                f"{name} is a stream of retract rows, of which only the last of each key is held "
                "to be so; take the folded model that keeps its current rows, or a zipper"
            )
        elif is_view:
            problems.append(
                f"{name} is a view, so what changed in it is unknown; take the table or the folded "
                "model that it is made of"
            )
    if model["resource_type"] == "model":
        problems += _config_problems(model["config"], key)
    if problems:
        raise BeliefsError("beliefs", problems)
    return Beliefs(name, key, columns)


def _config_problems(config: Settings, key: tuple[str, ...]) -> list[str]:
    unique_key = config.get("unique_key")
    unique_key = [unique_key] if isinstance(unique_key, str) else list(unique_key or [])
    zipper = dict(config.get("zipper") or {})
    sequence = zipper.get("sequence")
    zipper["sequence"] = sequence[0] if sequence in ([TIME], (TIME,)) else sequence
    problems = []
    if (
        config.get("materialized") != FOLDED
        or unique_key != list(key)
        or any(zipper.get(name) != value for name, value in ZIPPER.items())
        or zipper.get("time", TIME) != TIME
    ):
        problems.append(
            f"the model's config must be config(materialized='folded', unique_key={list(key)}, "
            f"zipper={ZIPPER}, full_refresh=false, {ON_CHANGE}='{ACCEPT}')"
        )
    elif config.get("full_refresh") is not False:
        problems.append(
            "the model's config must have full_refresh=false: what was believed earlier is nowhere "
            "else, so that --full-refresh must not make the table again"
        )
    elif config.get(ON_CHANGE) != ACCEPT:
        problems.append(
            f"the model's config must have {ON_CHANGE}='{ACCEPT}': what was believed under an "
            "earlier definition stays, and a run under another compares all rows with it"
        )
    return problems


class BeliefModels:
    """Answers what the macros of beliefs ask."""

    def __init__(self, warehouse: Warehouse, keyed: KeyedTables, definitions: Definitions) -> None:
        self._warehouse = warehouse
        self._keyed = keyed
        self._definitions = definitions

    def declared_beliefs(self, model: Node, given: Json, graph: Graph) -> Beliefs:
        """The beliefs that a macro's call asks for; all problems are reported at once."""
        types, is_view = self._warehouse.types_and_view(given["rows"], model, graph)
        return checked(read_beliefs, given, model, types, is_view)

    def moment(self, given: Given) -> str:
        """A moment as a SQL literal, see moment_sql."""

        def check() -> str:
            try:
                return moment_sql(given)
            except ValueError as exc:
                example = "as_known_at(ref('dim_product_price_bizip'), '2026-03-02 16:00:00')"
                raise DeclarationError("as_known_at", [str(exc)], example) from exc

        return checked(check)

    def record_known_time(self, model: Node, beliefs: Beliefs, adds: bool) -> Json:
        """What a run of the model needs to write: {time: the time as a SQL literal, is_declared:
        whether the stored beliefs are known to be of the same definition}. Lets the next commit
        carry the time, and what the beliefs are about.

        The time is when the command began, so that it is one for all models of a run. It lies
        above that of each earlier commit of the table, also where a clock stepped back.

        Args:
            adds: whether the table has beliefs already.
        """
        if self._warehouse.credentials.offline or model["resource_type"] != "model":
            return {"time": literal_of(NEVER_KNOWN), "is_declared": True}
        history = self._keyed.runs_history(model)
        recorded = (snapshot.summary.get(TIME_PROPERTY) for snapshot in history.snapshots.values())
        times = [datetime.fromisoformat(text) for text in recorded if text]
        stored = history.recorded(DEFINITION_PROPERTY)
        # runs may have been merged since, and the commits that carried the time have expired
        if adds and (not times or stored is None):
            times += self._newest_stored_time(model)
        began = get_invocation_started_at().replace(tzinfo=UTC)
        time = max([began, *(known + timedelta(microseconds=1) for known in times)])
        properties = {TIME_PROPERTY: time.isoformat(), DEFINITION_PROPERTY: beliefs.definition}
        inputs = self._warehouse.inputs
        inputs.note_properties(model["unique_id"], properties)
        # what comes again is compared with what is believed, which has to stay
        inputs.note_news(model["unique_id"], tolerates_replay=True)
        is_declared = not adds or (
            stored == beliefs.definition and not self._definitions.changes_of(model)
        )
        return {"time": literal_of(time), "is_declared": is_declared}

    def _newest_stored_time(self, model: Node) -> list[datetime]:
        """The highest known time of the table's rows, as a list of at most one."""
        (newest,) = (
            self._warehouse.session()
            .sql(f"select unix_micros(max({TIME})) from {stored_table_of(model)}")
            .first()
        )
        return [] if newest is None else [NEVER_KNOWN + timedelta(microseconds=newest)]
