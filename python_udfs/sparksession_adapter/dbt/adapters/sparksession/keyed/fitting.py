"""Whether a keyed table is declared as when its stored runs were made."""

from __future__ import annotations

from dbt.adapters.sparksession.edges import Node
from dbt.adapters.sparksession.iceberg.history import History
from dbt.adapters.sparksession.keyed.tables import SIGNATURE_PROPERTY, KeyedTables
from dbt_common.exceptions import CompilationError

PLACES = "partition_by "  # begins a difference of where the state rows lie, whatever they hold


def misfits(keyed: KeyedTables, node: Node, history: History) -> list[str]:
    """How a keyed table is declared otherwise than the runs at the history's head were made, so
    that they can't be read by what is declared.

    Args:
        history: of its runs.
    """
    stored = history.recorded(SIGNATURE_PROPERTY)
    if stored is None:
        return []
    found = keyed.stored_fold(node, history).changed_since(stored)
    return [problem for problem in found if not problem.startswith(PLACES)]


def check_fits(keyed: KeyedTables, node: Node, history: History) -> None:
    """Refuse a read of a keyed table by another fold than made its runs.

    Args:
        history: with the snapshot as its head that is read.

    Raises:
        CompilationError: the rows would be neither those of before nor those of now.
    """
    problems = misfits(keyed, node, history)
    if problems:
        name = node["name"]
        raise CompilationError(
            f"{name}: its stored rows were made by another fold or zipper than it declares now "
            f"({'; '.join(problems)}), so that a reader would have rows of neither; build it "
            f"first, by dbt run -s {name} --full-refresh, or declare it as it was."
        )
