"""Models that join: what their commits say, which of their rows a run makes again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

from dbt.adapters.sparksession.declared.declarations import checked
from dbt.adapters.sparksession.declared.derived_configs import stated_config
from dbt.adapters.sparksession.declared.join_configs import FOLD, derived_config, key_in_join
from dbt.adapters.sparksession.declared.join_indexes import (
    MOST_LOOKUPS,
    Lookup,
    index_columns,
    index_definition,
    index_problem,
    lookups_wanted,
)
from dbt.adapters.sparksession.declared.joins import Join, JoinConfigError, read_join
from dbt.adapters.sparksession.edges import (
    Context,
    Foreign,
    Given,
    Graph,
    Json,
    Node,
    Settings,
)
from dbt.adapters.sparksession.iceberg.history import History
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.layout import column_names
from dbt.adapters.sparksession.keyed.tables import FOLDED, KeyedTables, stored_table_of
from dbt.adapters.sparksession.read_plans import INDEX_PROPERTY, INPUT_PROPERTY
from dbt.adapters.sparksession.reading.ranges import PruningColumn
from dbt.adapters.sparksession.reading.retract_sql import changed_keys
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.exceptions import CompilationError

COMMIT_NUMBER_PROPERTY = "join.commit_number"
JOIN_PROPERTY = "join.definition"
LONGEST_KEY = 80  # characters of a key that it shows


class JoinModels:
    """Answers what the join macros ask."""

    def __init__(self, warehouse: Warehouse, keyed: KeyedTables) -> None:
        self._warehouse = warehouse
        self._keyed = keyed

    def declared_join(self, model: Node, given: Json, context: Context) -> Join:
        """The join that a macro declares; all problems are reported at once, see read_join."""

        def types(relation: Relation) -> dict[str, str] | None:
            if self._warehouse.credentials.offline or model["resource_type"] == "unit_test":
                return None
            unreadable = self._unreadable(relation, context["graph"])
            if unreadable:
                raise JoinConfigError(given["form"], [unreadable])
            return {
                column.column: column.dtype
                for column in self._warehouse.get_columns_in_relation(relation)
            }

        return checked(read_join, given, model, types)

    def derived_config(self, model: Node, config: Foreign, given: Json) -> Json:
        """What a join writes into its model's config while dbt parses it: what is missing there.

        Args:
            config: dbt's object of that name in a model that is parsed.
            given: the join's arguments, see read_join.
        """
        return self._derived(model, config, key_in_join(given), FOLD)

    def derived_index_config(self, model: Node, config: Foreign, key: Given, by: Given) -> Json:
        """The same of an index of a join, see record_index."""
        names = column_names(by), column_names(key)
        columns = [*names[0], *names[1]] if names[0] and names[1] else []
        return self._derived(model, config, list(dict.fromkeys(columns)), {})

    def _derived(self, model: Node, config: Foreign, key: Sequence[str], fold: Settings) -> Json:
        stated = stated_config(model, config)
        return {} if stated is None else derived_config(stated, key, fold)

    def _unreadable(self, relation: Relation, graph: Graph) -> str | None:
        """Error text for a relation whose changes can't be found, else None."""
        name = relation.name_only.render()
        if relation.is_cte:
            return f"{name} is ephemeral, so what changed in it is unknown; join a table"
        node = self._warehouse.node_of(relation, graph)
        if node is not None:
            row_wise = node["config"].get("meta", {}).get("row_wise")
            is_view = node["config"]["materialized"] == "view" and not row_wise
        else:
            known = self._warehouse.get_relation(None, relation.schema, relation.identifier)
            is_view = known is not None and known.type == "view"
        if not is_view:
            keyed = None if node is None else self._keyed_below(node, graph)
            return keyed and (
                f"{name} is a view over the keyed table {keyed}, and no view of a keyed table is a "
                f"side of a join: join {keyed}, and make the view's columns of what the join gives"
            )
        return (
            f"{name} is a view whose rows don't each come from one row of its input, so what "
            "changed in it is unknown; join a table or a folded model"
        )

    def _keyed_below(self, node: Foreign, graph: Graph) -> str | None:
        """The keyed table that a view is made of, also through views; None where there is none."""
        if node["config"]["materialized"] != "view":
            return None
        for unique_id in node["depends_on"]["nodes"]:
            below = graph["nodes"].get(unique_id)
            if below is not None and below["config"]["materialized"] == FOLDED:
                return f"{below['schema']}.{below['alias']}"
            if below is not None and (found := self._keyed_below(below, graph)):
                return found
        return None

    def record_join(self, model: Node, join: Join, incremental: bool) -> int:
        """The number of the model's next commit, which is above those of all its others.

        Lets the commit carry it, and what the join is. Offline it is 1.

        Raises:
            CompilationError: what is stored was joined differently.
        """
        if self._warehouse.credentials.offline:
            return 1
        history = self._keyed.runs_history(model)
        stored = history.recorded(JOIN_PROPERTY) if incremental else None
        definition = json.dumps(join.definition, separators=(",", ":"))
        if stored is not None and join.differs_from(json.loads(stored)):
            raise CompilationError(
                f"{model['name']}: what is stored was joined differently: it was {stored}, is "
                f"{definition}. Run it with --full-refresh."
            )
        numbers = (
            snapshot.summary.get(COMMIT_NUMBER_PROPERTY) for snapshot in history.snapshots.values()
        )
        number = 1 + max(map(int, filter(None, numbers)), default=0)
        properties = {COMMIT_NUMBER_PROPERTY: str(number), JOIN_PROPERTY: definition}
        self._warehouse.inputs.note_properties(model["unique_id"], properties)
        return number

    def candidate_keys(self, model: Node, join: Join, condition: str, graph: Graph) -> str | None:
        """SQL text for a `from`: keys of the left rows that may fulfil a condition on its columns.

        A condition on columns that a table isn't folded by doesn't reach the scan of its runs. But
        the values of a folded row in columns of one group are those of a row of some run: the keys
        of these rows hold those that are looked for, and files are left out.

        Returns:
            None where there is nothing to be won: the left side isn't folded by a plain fold, or
            the condition is about its key, or about columns of several groups.
        """
        node = self._warehouse.node_of(join.left.relation, graph)
        if node is None or node["config"]["materialized"] != FOLDED or condition == "true":
            return None
        columns = {wanted["column"] for wanted in join.wanted_left}
        fold = self._pruned_fold(model, node, join)
        if fold is None or columns <= {*fold.key}:
            return None
        table = stored_table_of(node)
        pinned = self._warehouse.inputs.plan(model["unique_id"]).reads[table].pinned
        keys = ", ".join(join.left.key)
        return f"(select distinct {keys} from {table} version as of {pinned} where {condition})"

    def _pruned_fold(self, model: Node, node: Node, join: Join) -> Fold | None:
        """The left side's fold, where its runs hold the columns that right rows are matched by as
        readers see them; else None."""
        declared = self._keyed.declared_fold(node)
        if not isinstance(declared, Fold) or declared.derived:
            return None
        if not {*join.left.key} <= {*declared.key}:
            return None
        table = stored_table_of(node)
        read = self._warehouse.inputs.plan(model["unique_id"]).reads[table]
        fold = self._keyed.stored_fold(node, self._warehouse.input_history(table).at(read.pinned))
        assert isinstance(fold, Fold)
        columns = {wanted["column"] for wanted in join.wanted_left}
        groups = ({*fold.key}, *({*held} for held in fold.plain_columns()))
        return fold if any(columns <= held for held in groups) else None

    def record_index(self, model: Node, relation: Relation, key: Given, by: Given) -> list[str]:
        """The columns of an index of a relation, see the macro join_index; lets the model's next
        commit say what it is of.

        Args:
            key, by: a column or columns: what it finds, what it finds it by.

        Raises:
            CompilationError: the arguments or the model's config don't fit.
        """
        columns = checked(index_columns, key, by)
        if self._warehouse.credentials.offline or model["resource_type"] == "unit_test":
            return columns
        problem = index_problem(model, columns)
        if problem:
            raise CompilationError(f"{model['name']}: {problem}")
        of_commit = {INDEX_PROPERTY: index_definition(relation.name_only.render(), columns)}
        self._warehouse.inputs.note_properties(model["unique_id"], of_commit)
        return columns

    def lookup(self, model: Node, join: Join, rows: str, graph: Graph, size: int) -> Lookup | None:
        """Which left rows a run looks up in the left side's index, which has to be pinned.

        Args:
            rows: SQL text for a `from`: the right rows that changed.
            size: bytes that a lookup is taken to open.

        Returns:
            None where none is worth it, or where the index hasn't seen all the left rows that this
            run reads: it is behind, because the run left its model out.

        Raises:
            CompilationError: it isn't an index of the left side by the join's columns.
        """
        index = join.left.index
        reads = self._warehouse.inputs.plan(model["unique_id"]).reads
        read = reads.get(self._table_of(index, graph))
        left = self._table_of(join.left.relation, graph)
        if read is None or left not in reads:  # a view
            return None
        history = self._warehouse.input_history(read.table).at(read.pinned)
        left_name = join.left.relation.name_only.render()
        wanted = index_definition(left_name, join.left.indexed_by)
        found = history.recorded(INDEX_PROPERTY)
        if found != wanted:
            raise CompilationError(
                f"{model['name']}: left.index ({index.name_only.render()}) must be a model of "
                f"join_index that is of {wanted}; its commits say {found}"
            )
        if not self._has_seen(history, left, reads[left].pinned):
            return None
        column = None if join.wanted_time is None else PruningColumn(**join.wanted_time)
        begins = self._begins(rows, column)
        number = lookups_wanted(begins, self._files(model, join, column, graph), size)
        if not number:
            return None
        far, near = "true", "false"
        if number < len(begins):
            begin = begins[number]
            assert column is not None and begin is not None  # it is no other row's before it
            cut = column.literal(begin)
            if cut is None:
                return None
            near = f"cast({column.low} as {column.kind}) >= {cut}"
            far = f"not coalesce({near}, false)"
        return Lookup(f"{read.table} version as of {read.pinned}", far, near)

    def _table_of(self, relation: Relation, graph: Graph) -> str:
        """schema.name of the table that holds a relation's rows."""
        node = self._warehouse.node_of(relation, graph)
        return f"{relation.schema}.{relation.identifier}" if node is None else stored_table_of(node)

    def _has_seen(self, index: History, table: str, pinned: int) -> bool:
        """Whether the rows of an index are those of a table at a snapshot."""
        seen = index.recorded(INPUT_PROPERTY + table)
        if seen is None:
            return False
        since = self._warehouse.input_history(table).between(int(seen), pinned)
        return since is not None and not any(commit.changes_rows for commit in since)

    def _begins(self, rows: str, column: PruningColumn | None) -> list[Decimal | None]:
        """See lookups_wanted."""
        low = "null" if column is None else column.number(column.low)
        asked = f"select {low} as begin from {rows} order by begin nulls first"
        answer = self._warehouse.session().sql(f"{asked} limit {MOST_LOOKUPS + 1}").collect()
        return [begin for (begin,) in answer]

    def _files(
        self, model: Node, join: Join, column: PruningColumn | None, graph: Graph
    ) -> list[tuple[Decimal | None, int]]:
        """Of each of the left side's files the last time that it holds, None where that is unknown
        or no scan goes by it, and its bytes."""
        last, node = "null", self._warehouse.node_of(join.left.relation, graph)
        is_pruned = (
            node is None
            or node["config"]["materialized"] != FOLDED
            or self._pruned_fold(model, node, join) is not None
        )
        if column is not None and column.is_ordered and is_pruned:
            last = column.number(f"readable_metrics.{quoted(column.column)}.upper_bound")
        table = self._table_of(join.left.relation, graph)
        asked = f"select {last}, file_size_in_bytes from {table}.files"
        return [(bound, size) for bound, size in self._warehouse.session().sql(asked).collect()]

    def changed_pairs(self, before: str, after: str, join: Join) -> str:
        """Query of retract rows between two states of a join, see changed_keys.

        Of rows with one key, which a side with a key of its own can't have, the greatest counts,
        as in the fold.
        """
        return changed_keys(before, after, join.columns, join.key, pick="max(image)")

    def expect_rows(self, model: Node, count: int | None) -> None:
        """Let the model's run be of the size class of so many rows; None for what it reads."""
        self._warehouse.inputs.note(model["unique_id"], batch_rows=count)

    def skewed_keys(self, sql: str) -> list[str]:
        """Texts of the keys that a query finds: join_key (JSON), left_rows, right_rows."""
        found = []
        for key, left_rows, right_rows in self._warehouse.session().sql(sql).collect():
            text = key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}..."
            text = "".join(
                character
                if character.isprintable()
                else character.encode("unicode_escape").decode()
                for character in text
            )
            found.append(f"key {text}: {left_rows:,} left rows x {right_rows:,} right rows")
        return found
