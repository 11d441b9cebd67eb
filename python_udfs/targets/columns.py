"""Columns of a store's table, beside those that the table should have."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def column_differences(
    wanted: Mapping[str, str], found: Mapping[str, str], plain: Callable[[str], str]
) -> list[str]:
    """How the columns of a table differ from those that it should have, one text each.

    Args:
        wanted, found: column -> the store's type.
        plain: a type -> the form in which types are compared.
    """
    lines = [f"column {column} is missing" for column in wanted if column not in found]
    lines += [f"column {column} is not the model's" for column in found if column not in wanted]
    return lines + [
        f"column {column} is {found[column]}, not {kind}"
        for column, kind in wanted.items()
        if column in found and plain(found[column]) != plain(kind)
    ]
