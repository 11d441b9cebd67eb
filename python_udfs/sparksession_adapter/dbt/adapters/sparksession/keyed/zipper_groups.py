"""Sequence groups of a zipper: columns whose changes have an order of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.sparksession.edges import Given
from dbt.adapters.sparksession.keyed.settings import ZipperGroupSettings
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.yaml_fields import read_fields

REMOVE_ROW, RETRACT = "remove_row", "retract"


@dataclass(frozen=True)
class ZipperGroup:
    """Columns of a zipper that follow one sequence.

    Attributes:
        name: what the config calls it.
        sequence: columns that order the changes of the group, in total. A row in which all of them
            are null holds nothing of the group.
        columns: columns that the group's changes give values to.
        on_delete: what a delete of the group does: REMOVE_ROW, the key has no version until the
            group's next change; RETRACT, the group's columns become null.
    """

    name: str
    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    on_delete: str = RETRACT

    @property
    def has_rows(self) -> str:
        """SQL condition: a row holds a change of the group."""
        return f"{quoted(self.sequence[0])} is not null"

    def own(self, name: str) -> str:
        """The name of a column that the zipper computes for this group."""
        return f"{name}{self.name}__"


def declared_groups(
    given: Mapping[str, Given], row_kind: str | None, problems: list[str]
) -> tuple[ZipperGroup, ...]:
    """The sequence groups that a config declares; problems are added to the list."""
    groups: list[ZipperGroup] = []
    group_of: dict[str, str] = {}
    for name, setting in given.items():
        where = f"zipper.sequence_groups.{name}"
        if not isinstance(setting, Mapping):
            problems.append(f"{where} must be {{sequence, columns}}, got {setting!r}")
            continue
        group = read_fields(ZipperGroupSettings, setting, f"{where}.", problems)
        for column in (*group.sequence, *group.columns):
            if column in group_of:
                problems.append(f"{where}: {column} is in group {group_of[column]} as well")
            group_of.setdefault(column, name)
        if "on_delete" in setting and not row_kind:
            problems.append(f"{where}.on_delete has no effect without zipper.row_kind")
        groups.append(ZipperGroup(name, group.sequence, group.columns, group.on_delete))
    return tuple(groups)
