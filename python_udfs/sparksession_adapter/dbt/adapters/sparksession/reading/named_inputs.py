"""What a name means: which table each of a model's inputs is, and whose rows a model's own table
has, so that tables which change places are seen.

A model reads on from the snapshot of a table that it read last, whatever the table is called. Where
it has two inputs, what it made of a table depends on the name by which it read it, too: a source
that gets the table of another source has all its rows made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbt.adapters.sparksession.edges import Foreign, Node
from dbt.adapters.sparksession.iceberg.history import MODEL_PROPERTY, History
from dbt.adapters.sparksession.keyed.tables import FOLDED, stored_table
from dbt.adapters.sparksession.reading.macro_calls import READS_OF_NEWS
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.warehouse import Warehouse

OTHER_MAKERS = ("seed", "snapshot")  # resource types whose tables hold rows of no model


def other_maker(history: History, table: str) -> str | None:
    """The resource type of the node that made a table's rows, where it is no model.

    Args:
        table: schema.name of the table.
    """
    maker = (history.recorded(MODEL_PROPERTY, table) or "").partition(".")[0]
    return maker if maker in OTHER_MAKERS else None


def name_in_sql(node: Node) -> str:
    """A node of the graph as the SQL of its readers names it; a renamed project is no difference.

    >>> name_in_sql({"resource_type": "source", "source_name": "src", "name": "a"})
    'source src.a'
    """
    if node["resource_type"] == "source":
        return f"source {node['source_name']}.{node['name']}"
    version = node.get("version")
    return f"ref {node['name']}" + ("" if version is None else f" v={version}")


def named_inputs(warehouse: Warehouse, model: Node, views: Sequence[Foreign]) -> dict[str, str]:
    """Name of each table that a model reads, through views too -> a hash of which table it is; {}
    of a model with one input, which changes places with none, unless it is a keyed table."""
    graph = warehouse.manifest().flat_graph
    found = {}
    for reader in (model, *(graph["nodes"][view.unique_id] for view in views)):
        for unique_id in reader["depends_on"]["nodes"]:
            node = graph["nodes"].get(unique_id) or graph["sources"].get(unique_id)
            kind = node["config"].get("materialized") if node is not None else None
            if node is None or kind in ("view", "ephemeral"):
                continue
            relation = warehouse.read_for(node, reader)
            table = stored_table(relation.schema, relation.identifier, kind)
            found[name_in_sql(node)] = mark_of(warehouse.input_history(table).uuid or table)
    is_keyed = model["config"].get("materialized") == FOLDED
    return found if is_keyed or len(found) > 1 else {}


def moved_inputs(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Inputs that are a table now which the model read as another input: what it made of that
    table's rows as the other input would stay.

    >>> moved_inputs({"source src.a": "1", "source src.b": "2"}, {"source src.b": "1"})
    ['source src.b is the table that source src.a was']
    """
    names = {table: name for name, table in before.items()}
    return [
        f"{name} is the table that {names[table]} was"
        for name, table in sorted(now.items())
        if before.get(name, table) != table and table in names
    ]


def other_tables(
    warehouse: Warehouse, model: Node, before: Mapping[str, str], now: Mapping[str, str]
) -> list[str]:
    """Inputs of a keyed table that are other tables by now than its rows were made of, as phrases:
    it would keep the keys that the other table lacks. Of a model that asks for what is new, all
    rows are made again by themselves. A remote session doesn't know which table one is.

    Args:
        before: what named_inputs gave when its rows were made; nothing of an older adapter.
        now: what it gives now.
    """
    plan = warehouse.inputs.plan(model["unique_id"])
    news = plan.news
    asks = news.is_asked or any(macro in model["raw_code"] for macro in READS_OF_NEWS)
    is_repaired = news.is_repaired or news.tolerates_replay or bool(news.given)
    is_keyed = model["config"].get("materialized") == FOLDED
    if not is_keyed or asks or is_repaired or is_remote(warehouse.session()):
        return []
    reads = plan.own.newest_reads if plan.own is not None else {}
    if not before and len(now) == len(reads) == 1:
        before = {name: mark_of(uuid) for name in now for _, uuid in reads.values() if uuid}
    others = sorted(name for name, table in now.items() if before.get(name, table) != table)
    return [f"{name} is another table than they were made of" for name in others]
