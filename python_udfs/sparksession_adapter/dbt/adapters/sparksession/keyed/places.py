"""Whether rows of a run have places of their own in a keyed table: rows of a table's changes have
those of the table's columns, which a change may leave as they were."""

from __future__ import annotations

from dbt.adapters.sparksession.edges import Foreign, Node
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.tables import RUNS_SUFFIX, Batch
from dbt.adapters.sparksession.keyed.zippers import Zipper
from dbt.adapters.sparksession.sql import quoted
from dbt_common.exceptions import DbtRuntimeError


def stands_behind(session: Foreign, model: Node, fold: Fold, batch: Batch) -> bool:
    """Whether rows of a batch have gone, or are older than they were, or others of the same
    place, in a table whose changes the model reads: they have the place of what they take
    back, so that a fold by that place may keep it.

    Cost: the batch; where a fold counts rows and a key has only lost some, or it keeps last
    known values, also the keys of all runs.

    Raises:
        DbtRuntimeError: so it is of values that the fold keeps where rows have gone: all rows,
            made again, wouldn't have these.
    """
    if fold.row_kind is None:
        return False
    in_place = fold.ignored_in_place(batch.rows)
    if in_place is not None and session.sql(in_place).head():
        raise DbtRuntimeError(
            f"{model['name']}: rows have changed and kept their place in its fold's order, or "
            "got an older place, and by on_delete: ignore the values of before would stay; "
            "name columns that each change raises as the sequence, or let on_delete be "
            "another. Nothing was written."
        )
    runs = _named_runs(model)
    queries = (
        fold.taken_back_last(batch.rows),
        fold.taken_alone(batch.rows, runs),
        fold.reset_values(batch.rows, runs),
    )
    return any(query is not None and session.sql(query).head() for query in queries)


def check_places(session: Foreign, model: Node, zipper: Zipper, batch: Batch) -> None:
    """Look at whether changed rows of a table came with a sequence of their own.

    Cost: the batch, and the keys and sequences of all runs.

    Raises:
        DbtRuntimeError: rows have changed and kept their sequence, or got a lower sequence, or
            have gone without a delete: nothing orders the change.
    """
    found = _counted(session, zipper.out_of_place(batch.rows, _named_runs(model)))
    if found:
        raise DbtRuntimeError(
            f"{model['name']}: {found} rows have changed or left, and their key has no row of "
            f"a higher {', '.join(zipper.sequence)}, so that nothing shows which values are "
            "the newer; name columns as zipper.sequence that each change raises, leave rows "
            "out by zipper.keep_when alone, or take the macro beliefs, which goes by when the "
            "warehouse got to know a row. Nothing was written."
        )


def check_taken_keys(session: Foreign, model: Node, zipper: Zipper, taken: str, given: str) -> None:
    """Look at whether keys were taken back from a zipper that has no kind of rows.

    Args:
        taken, given: the model's query over the rows that were taken back, and over the others.

    Raises:
        DbtRuntimeError: their last version would stay current.
    """
    keys = " and ".join(f"taken.{name} <=> given.{name}" for name in map(quoted, zipper.key))
    gone = f"(\n{taken}\n) as taken left anti join (\n{given}\n) as given on {keys}"
    names = ", ".join(map(quoted, zipper.key))
    found = _counted(session, f"select count(distinct struct({names})) from {gone}")
    if found:
        raise DbtRuntimeError(
            f"{model['name']}: {found} keys have gone from what its query reads the changes of, "
            "and its zipper has no row_kind that ends their versions; name it by "
            "zipper.row_kind, or leave out what takes rows back (where sign > 0), so that "
            "versions stay current. Nothing was written."
        )


def check_behind_deletes(session: Foreign, model: Node, zipper: Zipper, batch: Batch) -> None:
    """Look at whether rows came again of keys that were deleted behind their sequence.

    Cost: the batch, and the deletes of all runs.

    Raises:
        DbtRuntimeError: they would stay deleted.
    """
    found = _counted(session, zipper.behind_deletes(batch.rows, _named_runs(model)))
    if found:
        raise DbtRuntimeError(
            f"{model['name']}: {found} rows came again with a {', '.join(zipper.sequence)} "
            "that isn't above that of their delete, so that they would stay deleted; name "
            "columns as zipper.sequence that rise also where a row comes again, or take the "
            "macro beliefs. Nothing was written."
        )


def _counted(session: Foreign, query: str) -> int:
    return int(session.sql(query).head()[0])


def _named_runs(model: Node) -> str:
    """The table of a model's runs, for a `from`."""
    return f"{model['schema']}.{quoted(model['alias'] + RUNS_SUFFIX)}"
