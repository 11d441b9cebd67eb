"""Parts of a statement of Spark SQL that sqlglot has parsed: what it reads, its conditions, the
queries in it and the columns of these."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.spark_words import (
    DIALECT,
    in_known_words,
    with_distinct_pipes,
)
from dbt.adapters.sparksession.sql_texts import split_statements
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

NEWS = "dbt_news"  # stands for new rows in the text that is parsed
NEUTRAL = (exp.Unnest, exp.Values)  # sources that read no table
NUMBERING = "monotonically_increasing_id"


def reads_nothing(source: exp.Expr) -> bool:
    """Whether what a query joins reads no table; `lateral` stands before a query of its own, too,
    not only before what makes rows of a value."""
    if isinstance(source, exp.Lateral):
        return not isinstance(source.this, (exp.Query, exp.Subquery))
    return isinstance(source, NEUTRAL)


class UnreadableQuery(ValueError):
    """A query that can't be parsed."""


def parsed(sql: str, texts: Collection[str], name: str) -> exp.Expr | None:
    """A statement with a table `name` in place of some of its parts; None where it has none of
    them: a macro has kept what they read under another name.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    for text in sorted(texts, key=len, reverse=True):
        sql = sql.replace(text, f" {name} ")
    return _parsed(sql) if name in sql else None


@lru_cache(maxsize=16)
def _parsed(sql: str) -> exp.Expr:
    """A statement's tree, which its readers share and don't change: a node's query is looked at up
    to four times."""
    try:
        tree = _tree_of(sql)
    except UnreadableQuery:
        known = in_known_words(sql)
        if known == sql:
            raise
        tree = _tree_of(known)
    if not isinstance(tree, exp.Query):
        raise UnreadableQuery("It is no query.")
    _name_pipes(tree)
    _unfold_joins(tree)
    _drop_unused(tree)
    for query in [*tree.find_all(exp.Select)]:
        _unfold_windows(query)
        _unfold_names(query)
    return tree


def _tree_of(sql: str) -> exp.Expr:
    if ";" in sql:  # behind which a comment may stand
        statements, rest = split_statements(sql)
        sql = statements[0] if len(statements) == 1 and not rest else sql
    try:
        return parse_one(with_distinct_pipes(sql), dialect=DIALECT)
    except (SqlglotError, RecursionError) as exc:
        raise UnreadableQuery(str(exc)) from exc
    except (AssertionError, AttributeError, ValueError) as exc:  # of sqlglot, mostly at pipes
        known = "It has pipes (|>) that sqlglot doesn't know." if "|>" in sql else repr(exc)
        raise UnreadableQuery(known) from exc


def _name_pipes(tree: exp.Expr) -> None:
    """Let the name that a pipe gives its rows (`|> as t`) be read as a table's: the parser has it
    as an alias of nothing."""
    for first in [*tree.find_all(exp.From)]:
        if isinstance(first.this, exp.TableAlias):
            first.set("this", exp.to_table(first.this.name, dialect=DIALECT))


def _unfold_joins(tree: exp.Expr) -> None:
    """Let joins in parentheses, and those of a query that begins with `from`, stand where others
    do: the parser keeps them in their first table."""
    for table in [*tree.find_all(exp.Table)]:
        joins = table.args.get("joins")
        if not joins:
            continue
        table.set("joins", None)
        around = table.parent
        if isinstance(around, exp.From) and isinstance(around.parent, exp.Select):
            select = around.parent
            select.set("joins", [*joins, *(select.args.get("joins") or [])])
        else:
            joined = exp.select("*").from_(table.copy())
            joined.set("joins", joins)
            table.replace(joined)


def _drop_unused(tree: exp.Expr) -> None:
    """Leave out the CTEs that nothing reads, and those that only they read."""
    waiting = True
    while waiting:
        ctes = [*tree.find_all(exp.CTE)]
        read = {id(cte_of(table)) for table in tree.find_all(exp.Table)}
        unused = [cte for cte in ctes if id(cte) not in read]
        for cte in unused:
            around = cte.parent
            cte.pop()
            if around is not None and not around.expressions:
                around.pop()
        waiting = bool(unused)


def _unfold_windows(query: exp.Select) -> None:
    """Let what a select's named windows (`window w as (..)`) go by stand where it uses them."""
    named = {window.name.lower(): window for window in query.args.get("windows") or ()}
    used = [item for item in own_parts(query) if isinstance(item, exp.Window)] if named else []
    for window in [*named.values(), *used]:
        given = named.get(window.alias.lower())
        if given is None:
            continue
        window.set("partition_by", [item.copy() for item in given.args.get("partition_by") or ()])
        for part in ("order", "spec"):
            if given.args.get(part) and not window.args.get(part):
                window.set(part, given.args[part].copy())


def _unfold_names(query: exp.Select) -> None:
    """Let what a select aggregates or ranks stand where it is used by its new name: in further
    columns, in `having` and in `qualify`. Where a table of its sources has such a column, too, this
    is another expression than Spark's, of which less is known."""
    known = {name for source in sources_of(query) for name in names_in_query(source)}
    made: dict[str, exp.Expr] = {}
    lateral: dict[str, exp.Expr] = {}
    for item in [*query.expressions]:
        if lateral:
            value = _unfolded(item.unalias(), lateral)
            item = item.replace(
                exp.alias_(value, item.alias_or_name) if item.alias_or_name else value
            )
        name, value = item.alias.lower(), item.unalias()
        parts = value.walk()
        if name and any(is_aggregate(part) or isinstance(part, exp.Window) for part in parts):
            made[name] = value
            known |= {column.name.lower() for column in value.find_all(exp.Column)}
            if name not in known:  # a source's column goes before
                lateral[name] = value
    for part in ("having", "qualify"):
        condition = query.args.get(part)
        if condition is not None and made:
            query.set(part, _unfolded(condition, made))


def _unfolded(value: exp.Expr, named: Mapping[str, exp.Expr]) -> exp.Expr:
    """An expression with what stands for names in it, but for those in queries of its own."""

    def unfolded(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or part.table or part.find_ancestor(exp.Query):
            return part
        found = named.get(part.name.lower())
        return part if found is None else exp.paren(found, copy=True)

    return value.copy().transform(unfolded, copy=False)


def own_parts(query: exp.Select) -> Iterator[exp.Expr]:
    """What stands in a select's columns and conditions, not within a query of its own."""
    parts = [
        *query.expressions,
        *(query.args.get(name) for name in ("where", "having", "qualify", "order", "group")),
    ]
    for part in parts:
        if part is not None:
            yield from part.walk(prune=lambda item: isinstance(item, exp.Query))


def numbers_rows(query: exp.Select) -> bool:
    """Whether a select numbers its rows, which begins at 0 in each run."""
    unknown = (item for item in own_parts(query) if isinstance(item, exp.Anonymous))
    return any(item.name.lower() == NUMBERING for item in unknown)


def takes_some(source: exp.Expr) -> bool:
    """Whether a select takes a number of a source's rows (`tablesample (10 rows)`); a share of them
    is taken of each run's rows as of all."""
    sample = source.args.get("sample")
    return sample is not None and sample.args.get("size") is not None


def subqueries(query: exp.Select) -> Iterator[exp.Expr]:
    """Queries in a select's columns and conditions, those of its joins among them."""
    for item in own_parts(query):
        if isinstance(item, exp.Query):
            yield item
    for join in query.args.get("joins") or ():
        condition = join.args.get("on")
        if condition is not None:
            for item in condition.walk(prune=lambda part: isinstance(part, exp.Query)):
                if isinstance(item, exp.Query):
                    yield item


def joins_of(query: exp.Select) -> list[exp.Join]:
    """The joins of a select, but for those with what reads no table."""
    return [join for join in query.args.get("joins") or () if not reads_nothing(join.this)]


def keeps_all(join: exp.Join) -> bool:
    """Whether a join leaves out no row of what stands before it."""
    is_outer = join.side.upper() in ("LEFT", "FULL")
    return is_outer and join.kind.upper() not in ("SEMI", "ANTI")


def sources_of(query: exp.Select) -> list[exp.Expr]:
    """What a select reads: what stands first, then what its joins read, see joins_of."""
    first = query.args.get("from_")
    return [*([first.this] if first else []), *(join.this for join in joins_of(query))]


def label_of(source: exp.Expr) -> str:
    """How columns name what a select reads, in lower case; what has no name is only itself."""
    named = next((item.alias for item in source.args.get("pivots") or () if item.alias), "")
    return (named or source.alias_or_name).lower() or f"#{id(source)}"


def pivots_of(source: exp.Expr) -> list[exp.Pivot]:
    """What groups the rows of what stands in a `from`, and makes columns of their values."""
    return [item for item in source.args.get("pivots") or () if not item.args.get("unpivot")]


def pivoted_columns(source: exp.Expr) -> dict[str, exp.Expr]:
    """The columns that the pivots of a source make, in lower case, and their aggregates."""
    found: dict[str, exp.Expr] = {}
    for pivot in pivots_of(source):
        made = [item.unalias() for item in pivot.expressions]
        names = [column.name.lower() for column in pivot.args.get("columns") or ()]
        found |= {name: made[place % len(made)] for place, name in enumerate(names)}
    return found


def gives_none_of(query: exp.Select, source: exp.Expr) -> bool:
    """Whether a select gives no column of what it reads, as far as their names show."""
    name = label_of(source)
    given = [column for item in query.expressions for column in item.find_all(exp.Column)]
    is_bare = any(isinstance(item, exp.Star) for item in query.expressions)
    return bool(given) and not is_bare and not {"", name} & {item.table.lower() for item in given}


def conditions_of(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that all have to hold where a condition does."""
    if condition is None:
        return []
    if isinstance(condition, exp.And):
        return [*conditions_of(condition.left), *conditions_of(condition.right)]
    if isinstance(condition, (exp.Paren, exp.Qualify, exp.Where)):
        return conditions_of(condition.this)
    return [condition]


def equalities(condition: exp.Expr | None) -> list[tuple[exp.Expr, exp.Expr]]:
    """The equalities among the conditions that all have to hold."""
    return [
        (item.left, item.right)
        for item in conditions_of(condition)
        if isinstance(item, (exp.EQ, exp.NullSafeEQ))
    ]


def equated_columns(query: exp.Select, source: str) -> set[str]:
    """Columns of a source that a select asks to be equal to others.

    Args:
        source: its name, see label_of.
    """
    joins = query.args.get("joins") or ()
    found = {item.name.lower() for join in joins for item in join.args.get("using") or ()}
    conditions = [query.args.get("where"), *(join.args.get("on") for join in joins)]
    sides = [
        without_cast(side) for item in conditions for pair in equalities(item) for side in pair
    ]
    return found | {
        side.name.lower()
        for side in sides
        if isinstance(side, exp.Column) and side.table.lower() == source
    }


def without_cast(value: exp.Expr) -> exp.Expr:
    """An expression without what gives its value another type, or a null a value."""
    while isinstance(value, (exp.Cast, exp.TryCast, exp.Paren, exp.Coalesce)):
        value = value.this
    return value


def given_names(source: exp.Expr) -> list[str]:
    """Names that what stands in a `from`, or a CTE, gives to all its columns: `as t (a, b)`."""
    alias = source.args.get("alias")
    columns = alias.columns if isinstance(alias, exp.TableAlias) else []
    return [column.name.lower() for column in columns]


def query_behind(source: exp.Expr) -> tuple[exp.Expr | None, list[str]]:
    """The query that makes the rows of what stands in a `from`, and the names that its columns get
    there; [] where they keep their own."""
    given: list[str] = []
    current: exp.Expr | None = source
    while current is not None and not isinstance(current, (exp.Select, exp.SetOperation)):
        given = given or given_names(current)
        if isinstance(current, exp.Table):
            current = cte_of(current)
        elif isinstance(current, (exp.CTE, exp.Lateral, exp.Subquery)):
            current = current.this
        else:
            current = None
    return current, given


def cte_of(table: exp.Table) -> exp.Expr | None:
    """The CTE that a table's name stands for."""
    name, within = table.name.lower(), set[int]()
    current: exp.Expr | None = table
    while current is not None:
        within.add(id(current))
        for cte in current.args["with_"].expressions if current.args.get("with_") else ():
            if cte.alias.lower() == name and id(cte) not in within:
                return cte
        current = current.parent
    return None


def named_columns(query: exp.Select) -> list[tuple[str, exp.Expr]]:
    """The columns of a select, `*` among them, with their names in lower case. A column without a
    name has that of its place, which is no name that SQL could give."""
    found = []
    for place, item in enumerate(query.expressions):
        name = item.name if isinstance(item, exp.Column) else item.alias
        found.append(("*" if item.is_star else name.lower() or f"#{place}", item))
    return found


def taken_by_star(item: exp.Expr) -> tuple[str, set[str]]:
    """Of which source a select's `*` takes the columns, in lower case ("" for all of them), and
    which of them it leaves out."""
    star, table = (item.this, item.table) if isinstance(item, exp.Column) else (item, "")
    return table.lower(), {column.name.lower() for column in star.args.get("except_") or ()}


def names_in_query(query: exp.Expr) -> list[str]:
    """Names of the columns of a query, or of what stands in a `from`; see named_columns."""
    found, given = query_behind(query)
    if given:
        return given
    while isinstance(found, exp.SetOperation):
        found = query_behind(found.left)[0]
    return [name for name, _ in named_columns(found)] if isinstance(found, exp.Select) else []


def in_tables(value: exp.Expr, sources: Sequence[exp.Expr]) -> exp.Expr:
    """An expression in the columns of the tables that it comes from, without their names."""

    def followed(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column):
            return part
        of = [item for item in sources if part.table.lower() in ("", label_of(item))]
        name = part.name.lower()
        return origin_of_column(of[0], name) if len(of) == 1 else exp.column(name)

    return value.copy().transform(followed)


def origin_of_column(source: exp.Expr, name: str) -> exp.Expr:
    """What a column of a query is made of, in the columns of the tables that it comes from."""
    query, given = query_behind(source)
    while isinstance(query, exp.SetOperation):
        query = query_behind(query.left)[0]
    if not isinstance(query, exp.Select):
        return exp.column(name)
    name = dict(zip(given, names_in_query(query), strict=False)).get(name, name)
    sources = sources_of(query)
    columns = named_columns(query)
    for column, item in columns:
        if column == name and not item.is_star:
            return in_tables(item.unalias(), sources)
    if len(sources) == 1 and any(item.is_star for _, item in columns):
        return origin_of_column(sources[0], name)
    return exp.column(name)
