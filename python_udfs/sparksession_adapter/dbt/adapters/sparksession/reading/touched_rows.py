"""The rows in which a data test may find what it didn't find at an older snapshot of its table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbt.adapters.sparksession.edges import Foreign, Node
from dbt.adapters.sparksession.iceberg.history import (
    PINNED_READ,
    History,
    Snapshot,
    appended,
    pinned_reads,
)
from dbt.adapters.sparksession.iceberg.metadata import has_same_columns
from dbt.adapters.sparksession.iceberg.partitions import touched_partitions
from dbt.adapters.sparksession.keyed.tables import FOLDED, KeyedTables, only_adds_runs
from dbt.adapters.sparksession.reading.changes import ChangeReads
from dbt.adapters.sparksession.reading.commits import sharing
from dbt.adapters.sparksession.reading.ranges import ColumnRanges, values_of
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.warehouse import Warehouse

# rows of a stored table: of fewer, all are read as fast as those that a run touched are found
LARGE_TABLE = 1_000_000
# dbt's own tests whose failures lie in single rows
OF_SINGLE_ROWS = ("not_null", "accepted_values")
FAILS_WITHIN, SUMS = "fails_within", "sums"
# operators of Spark's analyzed plans that make each row of one row
RELATION = "RelationV2"
ROW_WISE = frozenset(
    {
        *("CTERelationDef", "CTERelationRef", "Filter", "Generate", "Project", RELATION),
        *("Sort", "SubqueryAlias", "Union", "WithCTE"),
    }
)
OPERATOR = re.compile(r"[ :+|-]*\w+")
# words that follow what a query reads and are no alias of it
BEHIND_A_READ = frozenset(
    {
        *("anti", "cluster", "cross", "distribute", "except", "full", "group", "having", "inner"),
        *("intersect", "join", "lateral", "left", "limit", "minus", "natural", "offset", "on"),
        *("order", "pivot", "right", "semi", "sort", "tablesample", "union", "unpivot", "using"),
        *("where", "window"),
    }
)
# words behind what is read, before a snapshot that may not be the newest
OTHER_SNAPSHOT = frozenset({"version", "timestamp", "for"})
# the word behind what a query reads, and behind comments
FOLLOWS = re.compile(r"(?=(?:\s|--[^\n]*|/\*[\s\S]*?\*/)*+(?P<follows>[\w`]+)?)")
BEHIND_A_NAME = r"(?![\w.`])" + FOLLOWS.pattern
NAMED_READ = re.compile(PINNED_READ.pattern + FOLLOWS.pattern)


def failing_group(test: Node) -> list[str] | None:
    """Columns whose values all rows of one failure of a data test share; none of them where each
    row fails or passes by itself. None where the test doesn't state it.

    A generic test states it by `config(meta={'fails_within': [..]})`.
    """
    metadata = test.get("test_metadata") or {}
    stated = (test["config"].get("meta") or {}).get(FAILS_WITHIN)
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    name = metadata.get("name")
    if f"macro.dbt.test_{name}" not in test["depends_on"]["macros"]:
        return None
    if name == "unique":
        return [metadata["kwargs"]["column_name"]]
    return [] if name in OF_SINGLE_ROWS else None


def compared_sums(test: Node) -> list[str] | None:
    """SQL expressions of a data test that fails where the sum of the first over the rows of its
    model isn't the sum of the second over those of its other relation; None of other tests.

    A generic test states it by `config(meta={'sums': [.., ..]})`.
    """
    stated = (test["config"].get("meta") or {}).get(SUMS)
    return None if stated is None or test["config"].get("where") else list(stated)


def in_place_of(sql: str, relation: str, rows: str) -> str | None:
    """A query with other rows wherever it reads a relation; None where it names it otherwise.

    >>> in_place_of("select a.id from dw.`a` where a.id > 0", "dw.`a`", "(rows)")
    'select a.id from (rows) as `a` where a.id > 0'
    >>> in_place_of("select dw.a.id from dw.a", "dw.a", "(rows)")
    """
    return _reading_instead("from", sql, relation, rows)


def reading_instead(sql: str, relation: str, other: str) -> str | None:
    """A query that reads another relation of the same rows; None where it names this one otherwise
    than as what it reads or joins.

    >>> reading_instead("select a.id from dw.`a` join dw.`a` as b using (id)", "dw.`a`", "c")
    'select a.id from c as `a` join c as b using (id)'
    """
    return _reading_instead("from|join", sql, relation, other)


def _reading_instead(words: str, sql: str, relation: str, other: str) -> str | None:
    name = re.escape(relation)
    read = re.compile(rf"\b({words}) {name}{BEHIND_A_NAME}", re.IGNORECASE)
    bare, left = relation.replace("`", "").lower(), read.sub("", sql).replace("`", "").lower()
    behind = {(match["follows"] or "").lower() for match in read.finditer(sql)}
    if not behind or behind & OTHER_SNAPSHOT or bare in left:
        return None
    return read.sub(lambda match: f"{match[1]} {_named(other, relation, match['follows'])}", sql)


def _named(rows: str, relation: str, follows: str | None) -> str:
    """What a query reads in place of a relation, by the name that the relation has before columns.

    Args:
        follows: the word behind it, which may be an alias.
    """
    if follows is not None and follows.lower() not in BEHIND_A_READ:
        return rows
    return f"{rows} as {quoted(relation.replace('`', '').rpartition('.')[2])}"


def is_row_wise(session: Foreign, sql: str, read: str) -> bool:
    """Whether each row of a query is made of one row of one table, whatever the others are.

    Args:
        read: the table's name as Spark's plans end a read of it.
    """
    if is_remote(session):
        return False
    plan = session.sql(sql)._jdf.queryExecution().analyzed()
    for line in plan.treeString().splitlines():
        operator = OPERATOR.match(line)
        if operator is None or operator[0].lstrip(" :+-|") not in ROW_WISE:
            return False
        if operator[0].endswith(RELATION) and not line.rstrip().endswith(read):
            return False
    return bool(plan.deterministic()) and plan.subqueriesAll().isEmpty()


@dataclass(frozen=True)
class Since:
    """What happened to the table below a table or a row-wise view since a version.

    Attributes:
        table: the stored table.
        history: its commits, as they are for the run.
        first: its snapshot in the version.
        commits: those since, newest first.
        text: pinned query of the rows of the table or view, which reads that table alone.
    """

    table: str
    history: History
    first: int
    commits: list[Snapshot]
    text: str

    @property
    def then(self) -> str:
        return f"{self.table} version as of {self.first}"

    @property
    def now(self) -> str:
        return f"{self.table} version as of {self.history.head}"

    @property
    def came(self) -> str:
        """SQL text, for a `from`, of what was appended to the table."""
        return appended(self.table, self.first, self.history.head)

    def made_of(self, rows: str) -> str:
        """SQL text, for a `from`, of the rows that are made of some of the table's."""

        def instead(read: re.Match[str]) -> str:
            return _named(rows, read["table"], read["follows"])

        return f"({NAMED_READ.sub(instead, self.text)})"


class TouchedRows:
    """Finds the rows that commits touched, as far as data tests need them."""

    def __init__(
        self, warehouse: Warehouse, keyed: KeyedTables, ranges: ColumnRanges, changes: ChangeReads
    ) -> None:
        self._warehouse = warehouse
        self._keyed = keyed
        self._ranges = ranges
        self._changes = changes

    def is_any_large(self, texts: Iterable[str]) -> bool:
        """Whether a table that pinned queries read is large."""
        tables = {table for text in texts for table, _ in pinned_reads(text)}
        histories = map(self._warehouse.input_history, sorted(tables))
        return any((history.rows or 0) >= LARGE_TABLE for history in histories)

    def since(
        self, test: Node, parent: Node, text: str, snapshots: Mapping[str, int]
    ) -> str | None:
        """SQL text, for a `from`, of the rows in which a data test may find a failure that it
        didn't find when a version was published; all its failures where it found none then.

        The rows of a failure share the values of some columns. A row that came or went has the
        values of each failure that is new, so the rows that have one of those values are enough.

        Args:
            parent: node of the table, or of a view over a table, that it tests.
            text: pinned query of its rows.
            snapshots: stored table -> snapshot in that version.

        Returns:
            None where all rows are to be tested: the test doesn't state within which columns it
            fails, its columns are others by now, or it isn't known which rows its commits touched.
        """
        group, news = failing_group(test), self._news(parent, text, snapshots)
        if group is None or news is None or not news.commits:
            return None
        if parent["config"].get("materialized") == FOLDED:
            return self._in_folded(parent, news, group)
        types = self._changes.kinds_at(news.made_of(news.then))
        if not set(group) <= types.keys():
            return None
        now = news.made_of(news.now)
        if all(commit.adds_only for commit in news.commits):
            came = news.made_of(news.came)
            return self._sharing(now, came, group, types) if group else came
        name, condition = touched_partitions(news.commits, self._changes.kinds_at(news.then))
        if name is None:
            return None
        touched = self._touched_then_and_now(news, condition)
        if not group or (name in group and parent["config"].get("materialized") != "view"):
            return touched[1]
        names = ", ".join(map(quoted, group))
        came_or_went = " union all ".join(f"select {names} from {rows}" for rows in touched)
        return self._sharing(now, f"({came_or_went})", group, types)

    def changed_sums(
        self,
        sums: Sequence[str],
        parents: Sequence[tuple[Node, str]],
        snapshots: Mapping[str, int],
    ) -> str | None:
        """Query by which sums that were equal in a version don't equal any more: of how much each
        has changed, one row where they changed by other amounts.

        Args:
            sums: SQL expressions, each of which is summed up over the rows of one parent.
            parents: node and pinned query of its rows, two of them.
            snapshots: stored table -> snapshot in that version.

        Returns:
            None where it isn't known which rows were touched.
        """
        changes = []
        for expression, (parent, text) in zip(sums, parents, strict=True):
            news = self._news(parent, text, snapshots)
            if news is None or parent["config"].get("materialized") == FOLDED:
                return None
            change = self._change_of_sum(expression, news)
            if change is None:
                return None
            changes.append(change)
        first, second = changes
        return (
            f"select * from (select {first} as model_change, {second} as other_change) as changes "
            "where model_change <> other_change"
        )

    def _change_of_sum(self, expression: str, news: Since) -> str | None:
        def sum_over(rows: str) -> str:
            return f"coalesce((select sum({expression}) from {rows}), 0)"

        if not news.commits:
            return "0"
        if all(commit.adds_only for commit in news.commits):
            return sum_over(news.made_of(news.came))
        name, condition = touched_partitions(news.commits, self._changes.kinds_at(news.then))
        if name is None:
            return None
        then, now = map(sum_over, self._touched_then_and_now(news, condition))
        return f"{now} - {then}"

    def _news(self, parent: Node, text: str, snapshots: Mapping[str, int]) -> Since | None:
        """What happened below a node since a version; None where it isn't of one table, row by row,
        or its columns are others by now."""
        pins = pinned_reads(text)
        if len(pins) != 1:
            return None
        ((table, head),) = pins
        history, first = self._warehouse.input_history(table).at(head), snapshots.get(table)
        commits = history.between(first, head)
        found = self._warehouse.loaded(table) if commits is not None else None
        if first is None or commits is None or found is None or not has_same_columns(found, first):
            return None
        if parent["config"].get("materialized") == "view":
            read = f".{table} VERSION AS OF '{head}'"
            if not is_row_wise(self._warehouse.session(), text, read):
                return None
        return Since(table, history, first, commits, text)

    @staticmethod
    def _touched_then_and_now(news: Since, condition: str) -> list[str]:
        """SQL texts, for a `from`, of the rows made of those of the table that meet a condition."""
        states = (news.then, news.now)
        return [news.made_of(f"(select * from {state} where {condition})") for state in states]

    def _in_folded(self, parent: Node, news: Since, group: Sequence[str]) -> str | None:
        """Of a keyed table: what a reader sees of a key may change as a whole where a state row of
        it comes."""
        if not only_adds_runs(news.commits):
            return None
        key = self._keyed.declared_fold(parent).touched_key
        names = group if group and set(group) <= set(key) else key
        if group and not set(names) <= set(group):
            return None
        types = self._changes.kinds_at(news.then)
        if not set(names) <= types.keys():
            return None
        state_rows = self._sharing(news.now, news.came, names, types)
        return self._keyed.folded_sql(parent, news.history, state_rows)

    def _sharing(
        self, held: str, touched: str, names: Sequence[str], types: Mapping[str, Foreign]
    ) -> str:
        """SQL text, for a `from`, of the rows of `held` that share their values of the named
        columns with a row of `touched`."""
        keys = f"select distinct {', '.join(map(quoted, names))} from {touched}"
        return sharing(held, keys, names, self._near(touched, names, types))

    def _near(self, touched: str, names: Sequence[str], types: Mapping[str, Foreign]) -> str:
        """SQL condition on `held` by which files are left out: the ranges that the values of
        `touched` lie in, of texts the least and the greatest."""
        kinds = {name: types[name].simpleString() for name in names}
        wanted = [values_of(name, kinds[name], column=f"held.{quoted(name)}") for name in names]
        conditions = [self._ranges.pruning_condition(touched, wanted)["condition"]]
        texts = [name for name in names if kinds[name] == "string"]
        if texts:
            bounds = ", ".join(
                f"hex(min({quoted(name)})), hex(max({quoted(name)}))" for name in texts
            )
            found = self._warehouse.session().sql(f"select {bounds} from {touched}").head()
            for place, name in enumerate(texts):
                # as digits: what the data holds is never read as SQL
                low, high = (f"cast(X'{text or ''}' as string)" for text in found[2 * place :][:2])
                column = f"held.{quoted(name)}"
                conditions.append(f"({column} between {low} and {high} or {column} is null)")
        return " and ".join(conditions)
