"""SQL of retract rows: what has to be done to one state of a table to make it another."""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.sparksession.edges import Foreign, Settings
from dbt.adapters.sparksession.sql import literal, quoted
from dbt_common.exceptions import CompilationError

ROW_KIND, SIGN = "row_kind", "sign"
UNORDERED = {"map", "variant"}  # of these Spark compares no two
INCOMPARABLE = {"interval", "geometry", "geography"}  # nor any type like it


def is_ordered(kind: Foreign) -> bool:
    """Whether Spark compares values of a type, one of pyspark's."""
    name = kind.typeName()
    if name == "array":
        return is_ordered(kind.elementType)
    if name == "struct":
        return all(is_ordered(field.dataType) for field in kind.fields)
    return name not in UNORDERED | INCOMPARABLE


def comparable(value: str, kind: Foreign, depth: int = 0) -> str:
    """SQL of what is equal where two values are: maps as their entries by key, variants as JSON.

    Args:
        value: SQL expression.
        kind: its type, one of pyspark's.
        depth: of the expression in others; lambdas name their variables by it.

    Raises:
        ValueError: with the name of a type in it that nothing can be compared by.
    """
    if is_ordered(kind):
        return value
    name, element = kind.typeName(), f"one_{depth}"
    if name == "map":
        entries = f"map_entries({value})"
        if not is_ordered(kind.valueType):
            held = comparable(f"{element}.value", kind.valueType, depth + 1)
            entries = f"transform({entries}, {element} -> struct({element}.key, {held}))"
        return f"array_sort({entries})"
    if name == "array":
        return (
            f"transform({value}, {element} -> {comparable(element, kind.elementType, depth + 1)})"
        )
    if name == "struct":
        fields = (
            comparable(f"{value}.{quoted(part.name)}", part.dataType, depth) for part in kind.fields
        )
        return f"if({value} is null, null, struct({', '.join(fields)}))"
    if name == "variant":
        return f"to_json({value})"
    raise ValueError(name)


def same_rows(kinds: Settings) -> str:
    """SQL condition: old_row and new_row are the same, or neither is there.

    Args:
        kinds: column -> type, of those that the rows have.

    Raises:
        CompilationError: of a column whose values can't be compared.
    """
    if all(map(is_ordered, kinds.values())):
        return "old_row <=> new_row"
    sides = []
    for side in ("old_row", "new_row"):
        values = []
        for name, kind in kinds.items():
            try:
                values.append(comparable(f"{side}.{quoted(name)}", kind))
            except ValueError as exc:
                raise CompilationError(
                    f"What changed is unknown of column {name}, since values of type {exc} "
                    "can't be compared: read it without that column, or cast it to a text."
                ) from exc
        sides.append(f"struct({', '.join(values)})")
    both = "(old_row is null) = (new_row is null)"
    return f"{both} and {' <=> '.join(sides)}"


def changed_keys(
    before: str,
    after: str,
    columns: Sequence[str],
    key: Sequence[str],
    pick: str | None = None,
    same: str = "old_row <=> new_row",
) -> str:
    """Query of retract rows: what has to be done to `before` to make it `after`.

    Args:
        before, after: SQL texts for a `from`; each key once.
        columns: those of `after`; `before` has them too.
        key: some of them.
        pick: which image of a key is taken where it is there more than once; where none is given,
            such a key is an error of the query.
        same: SQL condition, see same_rows.

    Returns:
        The columns, row_kind (-U and +U of a changed row, +I, -D) and sign. A row that is the
        same in both gives none.
    """
    row = f"struct({', '.join(map(quoted, columns))})"
    element = "named_struct('image', {}, 'row_kind', '{}', 'sign', {})"
    taken, given = element.format("old_row", "-U", -1), element.format("new_row", "+U", 1)
    found, known = f"not ({same})", ""
    if pick is None:
        pick = "any_value(image, true)"
        message = (
            f"What changed can't be found by the key ({', '.join(key)}), as several rows have the "
            "same; name columns that are unique (by=.. of new_changes, the unique_key of the table "
            "that is read), or none, so that equal rows are counted."
        )
        known = ",\n            greatest(count_if(side = -1), count_if(side = 1)) as rows_of_key"
        found = f"if(rows_of_key > 1, raise_error({literal(message)}), {found})"
    images = ",\n    ".join(f"changed.image.{quoted(name)}" for name in columns)
    return f"""select
    {images},
    changed.row_kind,
    changed.sign
from (
    select explode(
        case
            when old_row is null then array({element.format("new_row", "+I", 1)})
            when new_row is null then array({element.format("old_row", "-D", -1)})
            else array({taken}, {given})
        end
    ) as changed
    from (
        select
            {pick} filter (where side = -1) as old_row,
            {pick} filter (where side = 1) as new_row{known}
        from (
            select -1 as side, {row} as image from {before}
            union all
            select 1 as side, {row} as image from {after}
        )
        group by {", ".join(f"image.{quoted(name)}" for name in key)}
    )
    where {found}
)"""


def changed_rows(before: str, after: str, columns: Sequence[str]) -> str:
    """The same of rows without a key: equal rows are counted, the rest went (-D) or came (+I)."""
    names = ", ".join(map(quoted, columns))
    return f"""select
    {names},
    if(copies > 0, '+I', '-D') as row_kind,
    if(copies > 0, 1, -1) as sign
from (
    select {names}, sum(side) as copies
    from (
        select -1 as side, {names} from {before}
        union all
        select 1 as side, {names} from {after}
    )
    group by {names}
    having sum(side) <> 0
)
lateral view explode(sequence(1, abs(copies))) as copy_number"""
