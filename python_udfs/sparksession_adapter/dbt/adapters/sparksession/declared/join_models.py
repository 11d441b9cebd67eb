"""Models that join: what their commits say, which of their rows a run makes again."""

from __future__ import annotations

import json

from dbt.adapters.sparksession.declared.declarations import checked
from dbt.adapters.sparksession.declared.joins import Join, JoinConfigError, read_join
from dbt.adapters.sparksession.edges import Context, Graph, Json, Node
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.tables import FOLDED, KeyedTables, stored_table_of
from dbt.adapters.sparksession.reading.retract_sql import changed_keys
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
            return None
        return (
            f"{name} is a view whose rows don't each come from one row of its input, so what "
            "changed in it is unknown; join a table or a folded model"
        )

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
        columns = {wanted["column"] for wanted in join.wanted_left}
        if node is None or node["config"]["materialized"] != FOLDED or condition == "true":
            return None
        fold = self._keyed.declared_fold(node)
        if not isinstance(fold, Fold) or fold.derived or not {*join.left.key} <= {*fold.key}:
            return None
        table = stored_table_of(node)
        read = self._warehouse.inputs.plan(model["unique_id"]).reads[table]
        fold = self._keyed.stored_fold(node, self._warehouse.input_history(table).at(read.pinned))
        assert isinstance(fold, Fold)
        if columns <= {*fold.key} or not any(columns <= {*held} for held in fold.plain_columns()):
            return None
        keys = ", ".join(join.left.key)
        return (
            f"(select distinct {keys} from {table} version as of {read.pinned} where {condition})"
        )

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
