"""Sequence groups of a zipper: columns whose changes have an order of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.sparksession.edges import Given
from dbt.adapters.sparksession.keyed.layout import column_names
from dbt.adapters.sparksession.sql import quoted

REMOVE_ROW, RETRACT = "remove_row", "retract"
GROUP_SETTINGS = ("sequence", "columns", "on_delete")


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


def declared_groups(given: Given, row_kind: Given, problems: list[str]) -> tuple[ZipperGroup, ...]:
    """The sequence groups that a config declares; problems are added to the list."""
    if not given:
        return ()
    if not isinstance(given, Mapping):
        problems.append(f"zipper.sequence_groups must map names to settings, got {given!r}")
        return ()
    groups: list[ZipperGroup] = []
    group_of: dict[str, str] = {}
    for name, setting in given.items():
        where = f"zipper.sequence_groups.{name}"
        if not isinstance(setting, Mapping):
            problems.append(f"{where} must be {{sequence, columns}}, got {setting!r}")
            continue
        problems += [
            f"{where}.{extra} is an unknown setting; expected one of {', '.join(GROUP_SETTINGS)}"
            for extra in setting.keys() - set(GROUP_SETTINGS)
        ]
        sequence, columns = (column_names(setting.get(part) or ()) for part in GROUP_SETTINGS[:2])
        for part, names in (("sequence", sequence), ("columns", columns)):
            if not names:
                problems.append(
                    f"{where}.{part} must name at least one column, got {setting.get(part)!r}"
                )
            for column in names or ():
                if column in group_of:
                    problems.append(f"{where}: {column} is in group {group_of[column]} as well")
                group_of.setdefault(column, str(name))
        on_delete = setting.get("on_delete", RETRACT)
        if on_delete not in (REMOVE_ROW, RETRACT):
            problems.append(
                f"{where}.on_delete must be '{REMOVE_ROW}' or '{RETRACT}', got {on_delete!r}"
            )
        elif "on_delete" in setting and not row_kind:
            problems.append(f"{where}.on_delete has no effect without zipper.row_kind")
        groups.append(ZipperGroup(str(name), sequence or (), columns or (), on_delete))
    return tuple(groups)
