"""The parts of a fold as a config declares them: groups, functions of columns, derived rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dbt.adapters.sparksession.clock import goes_by_clock
from dbt.adapters.sparksession.edges import Given
from dbt.adapters.sparksession.keyed.groups import FOLDED_ROWS, OTHERS, Aggregate, Derived, Group
from dbt.adapters.sparksession.keyed.layout import listed
from dbt.adapters.sparksession.keyed.settings import (
    AggregateSettings,
    DerivedSettings,
    FoldSettings,
    GroupSettings,
    OrderColumn,
)
from dbt.adapters.sparksession.yaml_fields import field_errors, read_fields

NETTED = ("max", "min", "collect")  # where they keep the net count of each value


def names_of(order: Iterable[OrderColumn]) -> tuple[str, ...]:
    return tuple(entry.column for entry in order)


def descending_of(order: Sequence[OrderColumn], where: str, problems: list[str]) -> tuple[str, ...]:
    """The columns of an order whose lowest value is the newest."""
    directions: dict[str, str] = {}
    for entry in order:
        if directions.setdefault(entry.column, entry.order) != entry.order:
            problems.append(f"{where}: {entry.column} is ascending and descending")
    return tuple(name for name, order in directions.items() if order == "descending")


def sequence_groups_of(setting: FoldSettings, problems: list[str]) -> tuple[Group, ...]:
    """The groups that `sequence_groups` declares."""
    groups = []
    for name, given in setting.sequence_groups.items():
        where = f"fold.sequence_groups.{name}"
        if not isinstance(given, Mapping):
            problems.append(f"{where} must be {{sequence, columns}}, got {given!r}")
            continue
        if name == OTHERS:
            problems.append(f"{where}: {OTHERS!r} names the columns of no group, take another")
        read = read_fields(GroupSettings, given, f"{where}.", problems)
        tie_break = setting.tie_break if read.tie_break is None else read.tie_break
        groups.append(
            Group(
                name,
                names_of(read.sequence),
                names_of(tie_break),
                read.columns,
                read.on_delete,
                descending_of((*read.sequence, *tie_break), where, problems),
            )
        )
    return tuple(groups)


def declared_derived(declared: Given, key: tuple[str, ...], problems: list[str]) -> Derived | None:
    if declared is None:
        return None
    if not isinstance(declared, Mapping) or field_errors(DerivedSettings, declared):
        problems.append(
            "fold.derived must be {by: columns of the key, key: columns of the derived rows, sql: "
            f"a query from {FOLDED_ROWS}}}, got {declared!r}"
        )
        return None
    derived = DerivedSettings.model_validate(declared)
    for name in derived.by:
        if name not in key:
            problems.append(
                f"fold.derived.by: {name} is not a column of the key, {listed(key)} are"
            )
    if goes_by_clock(derived.sql):
        problems.append(
            "fold.derived.sql asks the clock or chance, so that readers of what changed wouldn't "
            "see its rows change; ask in a model that reads the keyed table"
        )
    return Derived(derived.by, derived.key, derived.sql.strip())


def declared_default(setting: FoldSettings, problems: list[str]) -> Aggregate | None:
    if setting.default_aggregate is None:
        return None
    if setting.other_columns != "last":
        problems.append("fold.default_aggregate and fold.other_columns exclude each other")
    where = "fold.default_aggregate"
    return declared_aggregates({where: setting.default_aggregate}, problems, "").get(where)


def declared_aggregates(
    declared: Mapping[str, Given], problems: list[str], within: str = "fold.aggregates."
) -> dict[str, Aggregate]:
    """The functions of columns, by what is declared for each; `within` goes before their names in
    problems."""
    found = {}
    for name, given in declared.items():
        where = within + name
        setting = {"function": given} if isinstance(given, str) else given
        if not isinstance(setting, Mapping) or "function" not in setting:
            problems.append(f"{where} must be a function or {{function, ..}}, got {given!r}")
            continue
        read = read_fields(AggregateSettings, setting, f"{where}.", problems)
        if read.net and read.function not in NETTED:
            problems.append(f"{where}.net is for {', '.join(NETTED)}, not for {read.function!r}")
        if "function" in read.model_fields_set:  # else it is unknown
            for part in ("distinct", "elements"):
                if part in read.model_fields_set and read.function != "collect":
                    problems.append(f"{where}.{part} is for collect, not for {read.function!r}")
            found[name] = Aggregate(
                read.function,
                read.ignore_retract,
                read.net,
                read.delimiter,
                distinct=read.distinct,
                elements=read.elements,
            )
    return found
