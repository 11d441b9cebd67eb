"""What a join asks of its model's config: written where the author has left it out, checked where
it is given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dbt.adapters.sparksession.declared.derived_configs import DERIVED
from dbt.adapters.sparksession.declared.join_arguments import FILTERS, mapped_columns
from dbt.adapters.sparksession.edges import Json, Settings
from dbt.adapters.sparksession.keyed.layout import column_names
from dbt.adapters.sparksession.keyed.tables import FOLDED
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND
from dbt.adapters.sparksession.yaml_fields import is_mapping

COMMIT_NUMBER = "commit_number"
FOLD = {"sequence": COMMIT_NUMBER, "row_kind": ROW_KIND}
OF_RIGHT = "right_{}"  # the name of a right key column whose own name is taken


def names_with_key(
    key: Iterable[str], columns: Mapping[str, str], taken: Collection[str] = ()
) -> dict[str, str]:
    """The columns of a side, its key's first where they aren't listed: column -> name in the join.

    Args:
        taken: names of the other side's columns.

    >>> names_with_key(["user", "n"], {"amount": "paid"}, taken=["user"])
    {'user': 'right_user', 'n': 'n', 'amount': 'paid'}
    """
    unlisted = (column for column in key if column not in columns)
    named = {name: OF_RIGHT.format(name) if name in taken else name for name in unlisted}
    return named | dict(columns)


def key_in_join(given: Settings) -> list[str]:
    """Columns that distinguish the rows of a join by its macro's arguments, whose other mistakes
    don't matter here; [] where a side names no key."""
    found: list[str] = []
    taken: Collection[str] = ()
    for name in ("left",) if given["kind"] in FILTERS else ("left", "right"):
        side = given[name] if is_mapping(given[name]) else {}
        key = column_names(side.get("key"))
        columns = mapped_columns(side.get("columns") or ())
        if not key or not isinstance(columns, Mapping):
            return []
        names = names_with_key(key, columns, taken)
        found += [names[column] for column in key]
        taken = names.values()
    return found


def derived_config(stated: Settings, key: Sequence[str], fold: Settings) -> Json:
    """What a macro writes into its model's config: the settings that are missing there.

    Args:
        stated: the config as it is, of the model's file and of dbt_project.yml.
        key: what its unique_key has to be; [] where that is unknown.
        fold: what its fold needs.

    >>> derived_config({"fold": {"buckets": 8}}, ["id"], {"sequence": "n"})["fold"]
    {'sequence': 'n', 'buckets': 8}
    """
    found: Json = {}
    if key and stated.get("unique_key") is None:
        found["unique_key"] = list(key)
    own = stated.get("fold")
    if fold and (own is None or (isinstance(own, Mapping) and not fold.keys() <= own.keys())):
        found["fold"] = dict(fold) | dict(own or {})
    return found | {DERIVED: sorted(found)} if found else {}


def config_problems(config: Settings, key: Sequence[str], fold: Settings) -> list[str]:
    """Settings of a model's config that don't fit its macro; each may be left out but the
    first."""
    problems = []
    if config["materialized"] != FOLDED or config.get("zipper"):
        problems.append("the model's config must be config(materialized='folded')")
    if column_names(config.get("unique_key")) != tuple(key):
        problems.append(
            f"unique_key of the model's config must be {list(key)} or be left out, got "
            f"{config.get('unique_key')!r}"
        )
    own = config.get("fold") or {}
    if any(own.get(name) not in (value, [value]) for name, value in fold.items()):
        problems.append(
            f"fold of the model's config must have {str(dict(fold))[1:-1]}, or these must be left "
            f"out, got {own!r}"
        )
    return problems
