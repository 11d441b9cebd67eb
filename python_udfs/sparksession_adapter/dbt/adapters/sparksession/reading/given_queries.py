"""What a model's query makes of the rows that a macro of joins, streams or extracts gives.

Such a macro makes right by itself what a run reads a part of, and gives what the run has to write.
A query around it sees the rows of that run alone: it may change each row by itself, not count them.
"""

from __future__ import annotations

from collections.abc import Collection

from dbt.adapters.sparksession.read_plans import GivenRows
from dbt.adapters.sparksession.reading.news_queries import AGAIN, problem_of, problem_of_unseen
from dbt.adapters.sparksession.reading.query_parts import parsed
from sqlglot import exp

GIVEN = "dbt_given"  # stands for the rows of macros
OF_A_RUN = (
    "aggregates or ranks what {macro}(..) gives in a run, so that rows of earlier runs are "
    "missing; do that in another model, or a view, that reads this model"
)
LEFT_OUT = (
    "leaves out changes that {macro}(..) gives, so that a key keeps what it had before; leave rows "
    "out by columns of the key, or in a view that {macro} reads"
)

NOT_ALL = (
    "leaves out or changes rows that join_index(..) gives, and a left row that the index lacks "
    "gets no partner; select all of them as they are, and of a view of the rows if only some are "
    "joined"
)
PLAIN_PARTS = {"expressions", "from_", "from", "with_", "with", "distinct", "kind", "hint"}


def problem_of_index(sql: str, news: Collection[str]) -> str | None:
    """Why a query doesn't give all that the macro join_index gives it, as it is; None where it
    does.

    Args:
        news: the parts of it that read what is new.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    tree = parsed(sql, news, GIVEN)
    if tree is None:
        return None
    plain = not any(tree.find_all(exp.SetOperation)) and all(
        {name for name, value in select.args.items() if value} <= PLAIN_PARTS
        and all(isinstance(item, exp.Star | exp.Column) for item in select.expressions)
        for select in tree.find_all(exp.Select)
    )
    return None if plain else NOT_ALL


def problem_of_given(
    sql: str, given: Collection[GivenRows], news: Collection[str], adds: bool
) -> str | None:
    """Why what a query makes of the rows of macros isn't, run after run, what it makes of all rows;
    None where it is, as far as the query shows.

    Args:
        given: its parts, and the macros that gave them.
        news, adds: as in problem_of.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    found = problem_of(with_given_rows(sql, given), [GIVEN, *news], adds)
    if found is not None:
        macros = " and ".join(sorted({rows.macro for rows in given}))
        return found if found == AGAIN else OF_A_RUN.format(macro=macros)
    for rows in given:
        by_key = rows.key and problem_of_unseen(with_given_rows(sql, [rows]), [GIVEN], rows.key)
        if by_key:
            return LEFT_OUT.format(macro=rows.macro)
    return None


def with_given_rows(sql: str, given: Collection[GivenRows]) -> str:
    """A query with the table GIVEN in the place of what macros gave it."""
    for rows in sorted(given, key=lambda item: len(item.text), reverse=True):
        sql = sql.replace(rows.text, f"select * from {GIVEN}")
    return sql
