"""What a model's own text makes of the rows that a macro of joins, streams or extracts gives.

Such a macro makes right by itself what a run reads a part of, and gives what the run has to write.
A query around it sees the rows of that run alone: it may change each row by itself, not count them.
Its compiled SQL doesn't show where the macro's ends, so the model's text is looked at, with a name
in the place of what its Jinja gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from dbt.adapters.sparksession.reading.macro_calls import PARSER
from dbt.adapters.sparksession.reading.news_queries import problem_of, problem_of_unseen
from dbt.adapters.sparksession.reading.query_parts import NEWS, UnreadableQuery
from jinja2 import TemplateSyntaxError, nodes

JOINS = (
    *("asof_join", "history_join", "interval_join", "latest_join", "many_to_many_join"),
    *("many_to_one_join", "one_to_one_join", "repaired_join", "temporal_join"),
)
# they give what a key is now, and look into the model's own table for what it was
UPSERTS = ("beliefs", "upsert_stream")
MACROS = frozenset((*JOINS, *UPSERTS, "append_stream", "extract_changes"))
OTHER = "dbt_other"  # stands for what other Jinja gives
OF_A_RUN = (
    "aggregates or ranks what {macro}(..) gives in a run, so that rows of earlier runs are "
    "missing; do that in another model, or a view, that reads this model"
)
LEFT_OUT = (
    "leaves out changes that {macro}(..) gives, so that a key keeps what it had before; leave rows "
    "out by columns of the key, or in a view that {macro} reads"
)


def problem_of_written(raw_code: str) -> str | None:
    """Why what a model's text makes of the rows of a macro isn't, run after run, what it makes of
    all rows; None where it is, or where the text doesn't show it.

    Args:
        raw_code: a SQL model's text with its Jinja.

    >>> joined = "{{ latest_join(left={}, right={}, on={}) }}"
    >>> problem_of_written(f"with j as ({joined}) select * from j where v > 1")
    >>> problem_of_written(f"select max(v) from ({joined})") == OF_A_RUN.format(macro="latest_join")
    True
    """
    found = _written(raw_code)
    if found is None:
        return None
    sql, macro, key = found
    try:
        if problem_of(sql, (), False) is not None:
            return OF_A_RUN.format(macro=macro)
        if macro in UPSERTS and problem_of_unseen(sql, (), key) is not None:
            return LEFT_OUT.format(macro=macro)
    except UnreadableQuery:  # a name doesn't fit in the place of what Jinja gives
        return None
    return None


@lru_cache(maxsize=64)
def _written(raw_code: str) -> tuple[str, str, tuple[str, ...]] | None:
    """A model's SQL with new rows in the place of what a macro gives, the macro's name and its
    argument `key`; None of a model with none of the macros, or in a branch or a loop."""
    try:
        tree = PARSER.parse(raw_code)
    except TemplateSyntaxError:  # a tag of dbt's own
        return None
    texts: list[str] = []
    macro, key = "", tuple[str, ...]()
    for part in _parts(tree):
        if part is None:
            return None
        if isinstance(part, nodes.TemplateData):
            texts.append(part.data)
        elif isinstance(part, nodes.Call) and isinstance(part.node, nodes.Name):
            name = part.node.name
            if name in MACROS:
                macro, key = name, _texts_in(part, "key")
                texts.append(f"select * from {NEWS}")
            elif name != "config":
                texts.append(OTHER)
        else:
            texts.append(OTHER)
    return ("".join(texts), macro, key) if macro else None


def _parts(tree: nodes.Template) -> Iterator[nodes.Node | None]:
    """What a text gives, in its order; None for what is only known when it is rendered."""
    for part in tree.body:
        if isinstance(part, nodes.Output):
            yield from part.nodes
        elif not isinstance(part, (nodes.Assign, nodes.ExprStmt)):
            yield None


def _texts_in(call: nodes.Call, name: str) -> tuple[str, ...]:
    """The texts of a call's argument; none where they are only known when it is rendered."""
    value = next((item.value for item in call.kwargs if item.key == name), None)
    items = value.items if isinstance(value, (nodes.List, nodes.Tuple)) else []
    return tuple(item.value for item in (value, *items) if isinstance(item, nodes.Const))
