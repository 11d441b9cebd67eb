"""Models that read the changed partitions of their inputs, and write these partitions again."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.edges import Context, Node
from dbt.adapters.sparksession.iceberg.partitions import (
    NULL,
    UNNAMED,
    PartitionReading,
    asked_partitions,
    needs_kind,
    partition_names,
    partition_predicate,
    partition_values,
    period_start,
    period_starts,
    periods_predicate,
)
from dbt.adapters.sparksession.iceberg.transforms import partition_column
from dbt.adapters.sparksession.keyed.tables import FOLDED
from dbt.adapters.sparksession.read_plans import (
    ASKED_PROPERTY,
    CLOSED_PROPERTY,
    REQUEST_PROPERTY,
    ReadPlan,
    ReplacedPartitions,
)
from dbt.adapters.sparksession.reading.changes import ChangeReads
from dbt.adapters.sparksession.reading.commits import Commits
from dbt.adapters.sparksession.reading.definitions import Definitions
from dbt.adapters.sparksession.reading.named_reads import NamedReads
from dbt.adapters.sparksession.reading.news import OVERWRITING, REPLACING, strategy_of
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.sql import literal
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.clients.jinja import get_template, render_template
from dbt_common.exceptions import CompilationError

logger = AdapterLogger("Spark")

# what these strategies add to is not taken away, so rows that are read again would be there twice
# or stay when they have gone
ADDING = ("append", "append_new_rows", "append_or_merge", "merge", OVERWRITING, "microbatch")
LATEST_YEAR = 9999  # of Python's dates; Spark's go on


def _check_materialization(model: Node, macro: str) -> None:
    strategy = strategy_of(model)
    materialized = (model.get("config") or {}).get("materialized")
    if strategy not in ADDING and materialized != FOLDED:
        return
    found = f"strategy '{strategy}'" if strategy else f"materialization '{materialized}'"
    raise CompilationError(
        f"{macro}: it reads rows again that {model['name']} has read before, so the model must "
        f"replace what it made of them, but has {found}. Example: "
        f"config(materialized='incremental', incremental_strategy='{REPLACING}', "
        "partition_by='day')"
    )


def _call_text(call: tuple[str, ...]) -> str:
    return f"{call[0]}({', '.join(call[1:])})"


class PartitionReads:
    """Reads inputs by their changed partitions."""

    def __init__(
        self,
        warehouse: Warehouse,
        definitions: Definitions,
        changes: ChangeReads,
        reads: TableReads,
        commits: Commits,
        *,
        named_reads: NamedReads,
    ) -> None:
        self._warehouse = warehouse
        self._definitions = definitions
        self._changes = changes
        self._reads = reads
        self._commits = commits
        self._named_reads = named_reads

    def changed_partitions(
        self,
        model: Node,
        relation: Relation,
        column: str,
        incremental: bool,
        context: Context,
        *,
        asked: list[str] | None = None,
        request: str | None = None,
    ) -> Relation:
        """All rows of those partitions of `relation` that changed since the model's last commit in
        any input that the model reads by changed_partitions(..). All rows where an input that it
        reads in another way has changed: which rows that concerns is unknown.

        Also notes for the strategy `replace_partitions` which partitions the model rewrites.
        The days in `asked` are among them, changed or not, and the commit names them with the
        `request`.

        Raises:
            CompilationError: the model can't be right that way.
        """
        inputs, model_id = self._warehouse.inputs, model["unique_id"]
        column = partition_column(column)
        days = self._asked(model_id, "changed_partitions", column, asked, request)
        call = ("changed_partitions", f"by='{column}'")
        pinned = self._read_by_partition(model, relation, call, context)
        if self._warehouse.inputs.is_noting or self._warehouse.credentials.offline:
            return pinned
        values = self._values_to_write(model, column, incremental, context)
        inputs.note(model_id, replaced=ReplacedPartitions())
        if values is not None:
            values = values | partition_values(column, days)
        is_asked = values is None or needs_kind(values)
        kind = self._partition_kind(pinned, column) if is_asked else None
        if kind in UNNAMED:
            raise CompilationError(
                f"changed_partitions: {column} is {kind} in {relation.name_only.render()}, and no "
                "text names its partitions (NaN, -0.0); partition by a decimal, a whole number or "
                "a text"
            )
        if values is None:
            return self._of_partitions(model_id, relation, pinned, "true")
        reading = inputs.plan(model_id).by_partition
        if reading.kind is not None and "binary" in {reading.kind, kind} and reading.kind != kind:
            raise CompilationError(
                f"changed_partitions: {column} must have one type in all inputs, got "
                f"{reading.kind} and, in {relation.name_only.render()}, {kind}; cast it in a view"
            )
        predicate = partition_predicate(column, values, kind)
        inputs.note(
            model_id,
            by_partition=replace(reading, kind=reading.kind or kind),
            replaced=ReplacedPartitions(predicate, predicate),
        )
        return self._of_partitions(model_id, relation, pinned, predicate)

    def _of_partitions(
        self, model_id: str, relation: Relation, pinned: Relation, predicate: str
    ) -> Relation:
        """The rows of some partitions, by a text that the model's plan knows."""
        text = f"(select * from {pinned.render()} where {predicate})"
        inputs = self._warehouse.inputs
        reading = inputs.plan(model_id).by_partition
        inputs.note(model_id, by_partition=replace(reading, texts=reading.texts | {text}))
        return relation.replace(reading=text)

    def closed_periods(
        self,
        model: Node,
        relation: Relation,
        by: str,
        *,
        period: str,
        into: str,
        incremental: bool,
        context: Context,
        zone: str = "UTC",
        asked: list[str] | None = None,
        request: str | None = None,
    ) -> Relation:
        """All rows of the closed periods of `relation` that the model has to rewrite.

        A period is closed once `relation` has a row of a later period, a day ahead of the clock in
        `zone` left aside. To be written are the closed periods with a partition that changed since
        the model's last commit, those that closed since then and those that days in `asked` lie in,
        which the commit names with the `request`. Also notes them for the strategy
        `replace_partitions`. A closed period stays closed, whatever becomes of the later rows.
        Rows without a day are in no period: where they are asked for, those that the model has go.
        """
        inputs, model_id = self._warehouse.inputs, model["unique_id"]
        by, into = partition_column(by), partition_column(into)
        days = self._asked(model_id, "closed_periods", by, asked, request)
        table = relation.name_only.render()
        call = ("closed_periods", table, f"by='{by}'", f"period='{period}'", f"into='{into}'")
        pinned = self._read_by_partition(model, relation, call, context)
        if self._warehouse.inputs.is_noting or self._warehouse.credentials.offline:
            return pinned
        plan = inputs.note(model_id, replaced=ReplacedPartitions())
        today, newest = self._today(zone), None
        if table in plan.reads:  # Iceberg answers this from the files' own statistics
            newest = self._warehouse.session().sql(
                f"select max({by}) as day from {pinned.render()} where {by} <= date '{today}'"
            )
            newest = newest.collect()[0].day
        noted = plan.own.history.recorded(CLOSED_PROPERTY) if plan.own else None
        recorded = date.fromisoformat(noted) if noted else None
        # None: not a level, it holds all
        held = self._commits.commit_property(relation, CLOSED_PROPERTY)
        latest = period_start(today, period)
        if held:
            latest = min(latest, date.fromisoformat(held))
        was_ahead = recorded is not None and recorded > latest
        if was_ahead and self._readers_are_built(model, context):
            recorded = latest  # these periods are open again: all is rewritten without them
        elif was_ahead:
            # readers expect the periods here, so they are kept, and written whenever they change
            was_ahead = False
            if held and recorded is not None and recorded > date.fromisoformat(held):
                raise CompilationError(
                    f"{model['name']} holds periods before {recorded}, {table} only those before "
                    f"{held}, since it gave up periods that a clock which was ahead had closed; "
                    f"run the model together with all that reads it: dbt run -s {model['name']}+"
                )
        begun = period_start(newest, period) if newest else None
        closed = max(filter(None, (recorded, begun)), default=None)
        if closed is None:
            return relation.replace(reading=f"(select * from {pinned.render()} limit 0)")
        inputs.note_properties(model_id, {CLOSED_PROPERTY: closed.isoformat()})
        is_known = incremental and recorded is not None and not was_ahead
        values = self._values_to_write(model, by, is_known, context)
        changed = None if values is None else _days(values | partition_values(by, days))
        if changed is None:
            condition = f"{by} < date '{closed}'"
        else:
            starts = {period_start(day, period) for day in changed if day < closed}
            starts.update(period_starts(recorded or closed, closed, period))
            names = ", ".join(f"date '{start}'" for start in sorted(starts))
            predicate = f"{into} in ({names})" if names else "false"
            if NULL in partition_values(by, days):
                predicate += f" or {into} is null"
            condition = periods_predicate(by, starts, period)
            inputs.note(model_id, replaced=ReplacedPartitions(predicate, condition))
        return relation.replace(reading=f"(select * from {pinned.render()} where {condition})")

    @staticmethod
    def _readers_are_built(model: Node, context: Context) -> bool:
        """Whether the run builds all models that read this model, also through views: their SQL may
        name the periods that this one holds."""
        selected = set(context.get("selected_resources") or ())
        nodes = context["graph"]["nodes"]
        found, seen = [model["unique_id"]], {model["unique_id"]}
        while found:
            read = found.pop()
            for unique_id, node in nodes.items():
                reads = node["resource_type"] == "model" and read in node["depends_on"]["nodes"]
                if not reads or unique_id in seen:
                    continue
                seen.add(unique_id)
                if node["config"]["materialized"] == "ephemeral":
                    found.append(unique_id)
                    continue
                if unique_id not in selected:
                    return False
                if node["config"]["materialized"] == "view":
                    found.append(unique_id)
        return True

    def closed_before(self, relation: Relation) -> str | None:
        """First day behind the periods that a level (see closed_periods) holds, None where it
        holds no period."""
        return self._commits.commit_property(relation, CLOSED_PROPERTY)

    def replaced_predicate(self, plan: ReadPlan) -> str | None:
        """SQL condition of the partitions that a model of this plan replaces, None for the whole
        table."""
        if plan.replaced is None:
            raise CompilationError(
                "replace_partitions: the model must read through changed_partitions(..), which "
                "names the partitions to replace. Example: "
                "from {{ changed_partitions(ref('x'), by='cut_date') }}"
            )
        return plan.replaced.predicate

    def _asked(
        self, model_id: str, macro: str, column: str, asked: list[str] | None, request: str | None
    ) -> set[str]:
        """Partitions that the run is asked to rewrite; the next commit names them."""
        try:
            days = asked_partitions(column, asked or [])
        except ValueError as exc:
            raise CompilationError(f"{macro}: {exc}") from exc
        if days:
            properties = {
                ASKED_PROPERTY: ",".join(sorted(map(str, asked or []))),
                REQUEST_PROPERTY: request or "",
            }
            self._warehouse.inputs.note_properties(model_id, properties)
        return days

    def _today(self, zone: str) -> date:
        now = f"from_utc_timestamp(current_timestamp(), {literal(zone)})"
        return self._warehouse.session().sql(f"select cast({now} as date) as day").collect()[0].day

    def _read_by_partition(
        self,
        model: Node,
        relation: Relation,
        call: tuple[str, ...],
        context: Context,
    ) -> Relation:
        """`relation` as of its pinned snapshot; the tables below it are noted as read by their
        partitions."""
        inputs, model_id = self._warehouse.inputs, model["unique_id"]
        plan = inputs.plan(model_id)
        reading = replace(plan.by_partition, calls=plan.by_partition.calls | {call})
        if len(reading.calls) > 1:
            calls = " and ".join(sorted(map(_call_text, reading.calls)))
            raise CompilationError(
                f"{model['name']}: all inputs that a model reads by their partitions must be read "
                f"by the same macro and column, got {calls}; where only the columns' names differ, "
                "the inputs' models have to give them one name"
            )
        _check_materialization(model, call[0])
        reading = reading.of_relation(relation.name_only.render())
        replaced = plan.replaced or ReplacedPartitions()
        inputs.note(model_id, by_partition=reading, replaced=replaced)
        try:
            return self._reads.read(model, relation, "all", context)
        finally:
            reading = inputs.plan(model_id).by_partition
            inputs.note(model_id, by_partition=replace(reading, relation=None))

    def _values_to_write(
        self, model: Node, column: str, incremental: bool, context: Context
    ) -> frozenset[str] | None:
        """Texts of the partitions that changed in the model's inputs, None for all partitions.

        What one input is read by depends on what changed in the others, wherever the model names
        them. So the model is rendered once before to note all that it reads, and this text is
        thrown away.
        """
        reading = self._warehouse.inputs.plan(model["unique_id"]).by_partition
        if not reading.decided:
            noted = self._noted(model, context)
            added = sorted(noted.by_partition.added)
            if added and strategy_of(model) == REPLACING:
                raise CompilationError(
                    f"{model['name']}: of {', '.join(added)} only what is new is read, so the "
                    "partitions that are replaced would lose what came of its older rows; read it "
                    "through changed_partitions(..) or pinned(..)"
                )
            values = self._changed_values(model, noted, column) if incremental else None
            reading = replace(
                reading, decided=True, values=None if values is None else frozenset(values)
            )
            self._warehouse.inputs.note(model["unique_id"], by_partition=reading)
        return reading.values

    def _noted(self, model: Node, context: Context) -> ReadPlan:
        """All that the model reads, also through ephemeral models, from a rendering that does
        nothing else. dbt puts the SQL of those in only when the model's own is rendered."""
        nodes = context["graph"]["nodes"]

        def render() -> None:
            texts = [render_template(get_template(model["raw_code"], context), context)]
            for unique_id in model["depends_on"]["nodes"]:
                parent = nodes.get(unique_id)
                if parent is not None and parent["config"].get("materialized") == "ephemeral":
                    relation = self._warehouse.relation_of_node(parent)
                    read = self._reads.read(model, relation, "all", context, explicit=False)
                    texts.append(f"select * from {read.render()}")
            for text in texts:
                self._named_reads.note_named_reads(model, text)

        return self._warehouse.inputs.rehearsed(model["unique_id"], render)

    def _changed_values(self, model: Node, noted: ReadPlan, column: str) -> set[str] | None:
        if self._definitions.goes_by_clock(model):
            logger.info(
                f"{model['name']} depends on the clock or the like: all partitions are written"
            )
            return None
        reading, values = noted.by_partition, set()
        below = {table for tables in reading.tables.values() for table in tables}
        # the author of a model that replaces all its rows knows which of them stay
        knows_others = strategy_of(model) == "replace_all"
        others = set() if knows_others else reading.others
        if noted.unpinned and not knows_others:
            names = ", ".join(sorted(noted.unpinned))
            logger.info(f"whether {names} changed can't be known: all partitions are written")
            return None
        lacking = []
        for table in sorted(below | others):
            read = noted.reads[table]
            if read.commits is None:
                logger.info(f"{table} was replaced or is read for the first time: all of it")
                return None
            if table in others and not read.changes_nothing:
                logger.info(
                    f"{table} changed, and {model['name']} doesn't read it by its partitions: all "
                    "partitions are written"
                )
                return None
            for commit in read.commits if table in below else ():
                # a compaction moves rows, it doesn't change them
                partitions = commit.partitions() if commit.operation != "replace" else set()
                if partitions is None:
                    logger.info(f"{table}: commit {commit.id} doesn't list its partitions")
                    return None
                name = column.strip("`")
                fitting = {
                    partition for partition in partitions if name in partition_names(partition)
                }
                values |= partition_values(column, fitting)
                if fitting != partitions:
                    lacking.append(table)
        for table in lacking:
            self._check_partition_column(reading, table, column)
            logger.info(f"{table} changed, whose partitions aren't by {column}: all of it")
            return None
        return values

    def _check_partition_column(self, reading: PartitionReading, table: str, column: str) -> None:
        """A table that isn't partitioned by the column may lie below a view beside one that is."""
        for tables in reading.tables.values():
            if table in tables and not any(self._has_partitions(table, column) for table in tables):
                raise CompilationError(
                    f"{next(iter(reading.calls))[0]}: no partition column {column!r}; `by` must be "
                    f"a partition column of {', '.join(sorted(tables))}"
                )

    def _has_partitions(self, table: str, column: str) -> bool:
        schema = self._warehouse.session().sql(f"select * from {table}.partitions limit 0").schema
        known = {field.name: field.dataType for field in schema}
        return column.strip("`") in getattr(known.get("partition"), "names", ())

    def _partition_kind(self, pinned: Relation, column: str) -> str | None:
        """Spark type of a column, None where there is no such column, which Spark will report."""
        name = column.strip("`").lower()
        kinds = {
            column.lower(): kind for column, kind in self._changes.kinds_at(pinned.render()).items()
        }
        return kinds[name].simpleString() if name in kinds else None


def _days(values: AbstractSet[str]) -> set[date] | None:
    """Partition texts as days, without null and days behind those that Python knows, which no
    closed period holds; None where one lies before them."""
    days = set()
    for text in values - {NULL}:
        if text.startswith("-"):
            return None
        if int(text.split("-")[0]) <= LATEST_YEAR:
            days.add(date.fromisoformat(text))
    return days
