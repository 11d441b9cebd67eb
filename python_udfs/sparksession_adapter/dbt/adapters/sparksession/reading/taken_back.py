"""Whether what a run takes back of a table's changes goes from what the model holds of it.

A query may leave out the rows that take back (`where sign > 0`), and a merge or a fold without a
kind of rows can't count them. What earlier runs made of such a row has to go all the same: then
all rows are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import replace
from functools import partial

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.clock import goes_by_clock
from dbt.adapters.sparksession.edges import Given, Node
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.places import (
    check_behind_deletes,
    check_places,
    check_taken_keys,
    stands_behind,
)
from dbt.adapters.sparksession.keyed.tables import Batch
from dbt.adapters.sparksession.keyed.zippers import Zipper
from dbt.adapters.sparksession.read_plans import ReadPlan
from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.chosen_queries import chosen_tables
from dbt.adapters.sparksession.reading.definitions import PARTIAL_RUNS
from dbt.adapters.sparksession.reading.fold_queries import counts_rows
from dbt.adapters.sparksession.reading.news_queries import (
    NEWS,
    UnreadableQuery,
    follows_new_rows,
    own_parts,
    parsed,
    reads_news,
)
from dbt.adapters.sparksession.reading.own_choices import OwnChoices
from dbt.adapters.sparksession.reading.query_parts import (
    DIALECT,
    label_of,
    origin_of_column,
    sources_of,
    subqueries,
)
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND, SIGN
from dbt.adapters.sparksession.reading.view_marks import statement_of
from dbt.adapters.sparksession.sql import literal, quoted
from dbt.adapters.sparksession.warehouse import Warehouse
from pyspark.errors import AnalysisException
from sqlglot import exp

logger = AdapterLogger("Spark")
# which of a table's changes take a row back, and which give one; by their kind, as the table may
# have a column `sign` itself
TAKEN, GIVEN = f"{ROW_KIND} in ('-U', '-D')", f"{ROW_KIND} in ('+I', '+U')"
# column of changes -> which of them take a row back, by that column
TAKEN_BACK = {ROW_KIND: TAKEN, SIGN: f"{SIGN} < 0"}
OF_JOIN = "join."  # begins properties of a join's commits


def is_of_join(key: str) -> bool:
    """Whether a property of a commit is that of a join, or of an index of it."""
    return key.startswith(OF_JOIN)


def leaves_out_by_kind(sql: str, news: Collection[str], kind: str) -> bool:
    """Whether a query may leave rows out by whether they give or take back, or give them another
    kind: it uses that for more than to pass it on, or doesn't pass it on, or can't be parsed. Where
    it numbers changes, what gives a row may leave out what takes the row back.

    Args:
        news: its parts, for a `from`, that read changes.
        kind: the column of the kind that it gives.

    >>> leaves_out_by_kind("select id, row_kind from (n) where v > 1", ["(n)"], "row_kind")
    False
    >>> leaves_out_by_kind("select id, row_kind from (n) where sign > 0", ["(n)"], "row_kind")
    True
    >>> leaves_out_by_kind("select id, '+I' as row_kind from (n)", ["(n)"], "row_kind")
    True
    """
    try:
        tree = parsed(sql, news, NEWS)
    except UnreadableQuery:
        return True
    if tree is None or not reads_news(tree):
        return True
    names = {ROW_KIND, SIGN, kind.lower()}
    passed: set[int] = set()
    for query in tree.find_all(exp.Select):
        sources = [item for item in sources_of(query) if reads_news(item)]
        if not sources and any(map(reads_news, subqueries(query))):
            return True  # rows that changes choose don't have the changes' kind
        if sources and (_numbers_rows(query) or _replaces(query, names)):
            return True
        for item in query.expressions:
            is_kind = bool(sources) and item.alias_or_name.lower() == kind.lower()
            if is_kind and not _is_handed_on(item, names, sources):
                return True
            if item.alias_or_name.lower() in names:
                passed |= {id(column) for column in item.find_all(exp.Column)}
        # what only orders or groups rows leaves none out
        for item in own_parts(query):
            if isinstance(item, (exp.Order, exp.Group)):
                passed |= {id(column) for column in item.find_all(exp.Column)}
    return any(
        column.name.lower() in names and id(column) not in passed
        for column in tree.find_all(exp.Column)
    )


def takes_back_by_clock(model: Node, fold: Fold, sql: str) -> bool:
    """Whether what takes a row back may come out otherwise than the row did, as the query asks the
    clock or chance: its fold would count off another value, or of another key.

    Args:
        fold: bound to its columns.
        sql: the model's query, as it was compiled.
    """
    return counts_rows(fold) and (goes_by_clock(model["raw_code"]) or goes_by_clock(sql))


def _numbers_rows(query: exp.Select) -> bool:
    return any(isinstance(item, exp.Window) for item in own_parts(query))


def _replaces(query: exp.Select, names: Set[str]) -> bool:
    """Whether a select has another value, or the rows of a value alone, by columns of its joins or
    its star that have one of these names."""
    stars = (item.find(exp.Star) for item in query.expressions)
    given = [item for star in stars if star for item in star.args.get("replace") or ()]
    joins = query.args.get("joins") or ()
    given += [item for join in joins for item in join.args.get("using") or ()]
    is_natural = any(join.method.upper() == "NATURAL" for join in joins)
    return is_natural or any(item.alias_or_name.lower() in names for item in given)


def _is_handed_on(item: exp.Expr, names: Set[str], sources: Sequence[exp.Expr]) -> bool:
    """Whether a column of a select is the kind of the changes that it reads, as they have it.

    Args:
        names: what that column may be called.
        sources: those of the select that read changes.
    """
    value = item.unalias()
    tables = {"", *map(label_of, sources)}
    return (
        isinstance(value, exp.Column)
        and value.name.lower() in names - {SIGN}
        and value.table.lower() in tables
    )


class TakenBack:
    """Sees whether a model has to be made of all rows, since rows were taken back."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def is_of_fold(self, model: Node, batch: Batch, sql: str) -> bool:
        """Whether a keyed table would keep what is taken back: it has no kind of rows, its query
        leaves such rows out or makes something else of them than it made of the rows, or they have
        the order of what they take back. It stays in a model that may not be built again, or whose
        runs are meant by themselves. A join's changes are ordered by its own commits, and an index
        of a join may find more than there is.

        Args:
            sql: the model's query, as it was compiled.

        Raises:
            DbtRuntimeError: of a zipper, rows have no place, see _check_places.
        """
        fold, config = batch.fold, model["config"]
        plan = self._warehouse.inputs.plan(model["unique_id"])
        if config.get(PARTIAL_RUNS):
            return False
        if any(map(is_of_join, plan.properties)):
            return False
        if not isinstance(fold, Fold):  # a zipper holds what was
            self._check_places(model, fold, batch, sql)
            return False
        if config.get("full_refresh") is False:
            return False
        takes_back = partial(self._takes_back, plan, batch, sql if is_sql(model) else "")
        if self._is_of_lookups(model, plan, sql, takes_back):
            return True
        if not plan.news.removals:
            return False
        if stands_behind(self._warehouse.session(), model, fold, batch):
            return True
        kind = fold.row_kind
        if kind is None or (is_sql(model) and takes_back_by_clock(model, fold, sql)):
            return self._takes_any_back(plan)
        if is_sql(model) and not leaves_out_by_kind(sql, plan.news.texts, kind):
            return False
        if is_sql(model):
            return self._takes_any_back(plan)
        return any(
            self._is_any(plan, f"{ROW_KIND} = {literal(name)}")
            and not self._has_row(
                f"select 1 from {batch.rows} where {quoted(kind)} = {literal(name)}"
            )
            for name in ("-U", "-D")
        )

    def _takes_back(self, plan: ReadPlan, batch: Batch, sql: str) -> bool:
        """Whether a run takes rows back: by their kind, or, in a fold without a kind, by what its
        query makes of their kind or sign.

        Args:
            sql: the query; none of a model in Python.
        """
        if plan.news.removals and self._takes_any_back(plan):
            return True
        if batch.fold.row_kind is not None:
            return self._gives_taken_back(batch)
        news = plan.news.texts
        return any(
            self._has_row(f"select 1 from {text} where {condition} limit 1")
            for name, condition in TAKEN_BACK.items()
            if sql and _names_column_of_news(sql, news, name)
            for text in sorted(news)
            if self._has_columns(f"select * from {text}", [name])
        )

    def _gives_taken_back(self, batch: Batch) -> bool:
        """Whether a batch has rows that take back."""
        kind = quoted(batch.fold.row_kind or "")
        return self._has_row(f"select 1 from {batch.rows} where {kind} in ('-U', '-D') limit 1")

    def is_of_log(self, model: Node, plan: ReadPlan, sql: str) -> bool:
        """Whether rows that are added as a log of changes wouldn't cancel out: what its rows are
        looked up in has changed since they were made, and rows are taken back.

        Args:
            sql: the query of the rows that are added.
        """
        news = plan.news
        if not news.removals or news.given or leaves_out_by_kind(sql, news.texts, ROW_KIND):
            return False
        return self._is_of_lookups(model, plan, sql, lambda: self._takes_any_back(plan))

    def _check_places(self, model: Node, zipper: Zipper, batch: Batch, sql: str) -> None:
        """Refuse rows of a table's changes whose place in a zipper shows no order.

        Raises:
            DbtRuntimeError: see keyed.places.
        """
        plan, kind = self._warehouse.inputs.plan(model["unique_id"]), zipper.row_kind
        news = plan.news
        if news.removals and self._takes_any_back(plan):
            session = self._warehouse.session()
            if kind is None and is_sql(model):  # what takes a row back counts as a row of its own
                taken, given = (_of_kinds(sql, news.removals, kinds) for kinds in (TAKEN, GIVEN))
                check_taken_keys(session, model, zipper, taken, given)
                batch = replace(batch, rows=f"(\n{given}\n) as zipper__given")
            check_places(session, model, zipper, batch)
        # a delete of a log may lie before a row that comes late
        if kind is None or not news.of_tables or news.texts != news.of_tables:
            return
        if not is_sql(model) or not leaves_out_by_kind(sql, news.texts, kind):
            check_behind_deletes(self._warehouse.session(), model, zipper, batch)

    def note_lookups(self, model: Node, makes_all: bool) -> None:
        """Let the next commit record whether rows were looked up in other rows of a table than the
        model's next rows.

        Args:
            makes_all: whether all rows are made again.
        """
        plan = self._warehouse.inputs.plan(model["unique_id"])
        for key, value in plan.noted_lookups(makes_all).items():
            self._warehouse.set_snapshot_property(key, value)

    def is_of_merge(self, model: Node, plan: ReadPlan, sql: str) -> bool:
        """Whether a merge would keep a row that isn't given any more: it has gone from what the
        model reads the changes of, by what it is now it gives no row of the key that it gave, or
        the query gives what was taken back as if it were there.

        Args:
            sql: the query of the rows that are merged.
        """
        if self._is_any(plan, f"{ROW_KIND} = '-D'"):
            return True
        if not self._takes_any_back(plan):
            return False
        if self._is_of_lookups(model, plan, sql, lambda: True):
            return True
        removals = plan.news.removals
        unique_key: Given = model["config"]["unique_key"]
        keys = [unique_key] if isinstance(unique_key, str) else list(unique_key)
        by_row = is_sql(model) and follows_new_rows(sql, plan.news.texts)
        if by_row and self._has_row(
            f"select 1 from (\n{_of_kinds(sql, removals, TAKEN)}\n) limit 1"
        ):
            return True
        now, earlier = sql, [_of_taken_back(sql, removals)]
        if not by_row:
            own, others = chosen_tables(sql, plan.news.texts, keys)
            if others:  # what was taken back chooses nothing any more
                now = _of_kinds(sql, removals, GIVEN)
            else:
                earlier = []
            if own:
                columns = _columns_of_keys(sql, plan.news.texts, keys)
                if columns is None:
                    return True
                earlier += [f"select {columns} from {text} where {TAKEN}" for text in removals]
        for query in earlier:
            if not self._has_columns(query, keys):
                return True
            same = " and ".join(f"earlier.{quoted(key)} <=> now.{quoted(key)}" for key in keys)
            gone = f"(\n{query}\n) as earlier left anti join (\n{now}\n) as now on {same}"
            if self._has_row(f"select 1 from {gone} limit 1"):
                return True
        return False

    @staticmethod
    def _is_of_lookups(
        model: Node, plan: ReadPlan, sql: str, takes_back: Callable[[], bool]
    ) -> bool:
        """Whether rows are taken back, and what a row is looked up in has other rows than when the
        model's rows were made: what takes a row back would find something else than the row did."""
        itself = is_sql(model) and looks_up_itself(sql, plan.news.texts)
        differ = plan.lookups_differ or itself
        if not differ or not takes_back():
            return False
        logger.warning(
            f"{model['name']}: rows were taken back, and what its rows are looked up in has "
            "changed since they were made, so that all its rows are made again; a join macro "
            "repairs the rows alone that such a change touches."
        )
        return True

    def _takes_any_back(self, plan: ReadPlan) -> bool:
        """Whether what the model reads the changes of took rows back."""
        return self._is_any(plan, TAKEN)

    def _is_any(self, plan: ReadPlan, condition: str) -> bool:
        """Whether there is such a row among the changes of what the model reads."""
        return any(
            self._has_row(f"select 1 from {text} where {condition} limit 1")
            for text in sorted(plan.news.removals)
        )

    def _has_row(self, sql: str) -> bool:
        return bool(self._warehouse.session().sql(statement_of(sql)).head())

    def _has_columns(self, sql: str, names: Collection[str]) -> bool:
        try:
            columns = self._warehouse.session().sql(statement_of(sql)).columns
        except AnalysisException:  # a column of a key is of another table
            return False
        return {name.lower() for name in names} <= {name.lower() for name in columns}


def is_sql(model: Node) -> bool:
    return model["language"] == "sql"


def _names_column_of_news(sql: str, news: Collection[str], name: str) -> bool:
    """Whether a query over new rows uses a column of this name."""
    try:
        tree = parsed(sql, news, NEWS)
    except UnreadableQuery:
        return True
    return tree is not None and any(
        column.name.lower() == name for column in tree.find_all(exp.Column)
    )


def looks_up_itself(sql: str, news: Collection[str]) -> bool:
    """Whether a query reads a table as a whole beside its own changes; not where it can't be
    parsed."""
    try:
        tree = parsed(sql, news, NEWS)
    except UnreadableQuery:
        return False
    own = OwnChoices(news)
    return tree is not None and any(map(own.reads_own, tree.find_all(exp.Table)))


def _columns_of_keys(sql: str, news: Collection[str], keys: Sequence[str]) -> str | None:
    """The columns of a key, as a query over changes makes them of columns of the table that it
    reads the changes of; None where that can't be followed, as through a `union`.

    Args:
        sql: the query; a model in Python has none, its keys have the names that they have there.
    """
    try:
        tree = parsed(sql, news, NEWS)
    except UnreadableQuery:
        return None
    if tree is None:
        return ", ".join(map(quoted, keys))
    made = [origin_of_column(tree, key.lower()) for key in keys]
    if any(isinstance(part, exp.SetOperation) for part in tree.walk()):
        return None
    parts = [part for item in made for part in item.walk()]
    if any(is_aggregate(part) or isinstance(part, (exp.Query, exp.Window)) for part in parts):
        return None
    pairs = zip(made, keys, strict=True)
    return ", ".join(f"{item.sql(DIALECT, identify=True)} as {quoted(key)}" for item, key in pairs)


def _of_kinds(sql: str, removals: Collection[str], kinds: str) -> str:
    """The query over the rows that were taken back (TAKEN), or given (GIVEN), alone."""
    for text in sorted(removals, key=len, reverse=True):
        sql = sql.replace(text, f"(select * from {text} where {kinds})")
    return sql


def _of_taken_back(sql: str, removals: Collection[str]) -> str:
    """The query over the rows that were taken back, as if they were given."""
    for text in sorted(removals, key=len, reverse=True):
        sql = sql.replace(
            text,
            f"(select changed.* except ({ROW_KIND}, {SIGN}), given.{ROW_KIND}, given.{SIGN} "
            f"from {text} as changed "
            f"cross join values ('+I', 1), ('+U', 1) as given({ROW_KIND}, {SIGN}) "
            f"where changed.{TAKEN})",
        )
    return sql
