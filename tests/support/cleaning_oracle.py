"""What cleaning rules do to a row, in plain Python; imports nothing of the project."""

from __future__ import annotations

from typing import Any

# Unicode's White_Space; str.strip() would take the separators U+001C to U+001F too
WHITE_SPACE = "".join(
    map(chr, [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029])
) + "".join(map(chr, [0x202F, 0x205F, 0x3000]))


def clean_row(
    row: dict[str, Any],
    rules: dict[str, dict[str, Any]],
    dictionaries: dict[str, dict[str, str]],
) -> dict[str, Any]:
    """The row with clean values, and `cleaning`, what was done.

    Args:
        rules: column -> its rules, as in the YAML; bounds of a range as values of the column.
        dictionaries: seed -> what its words mean; a word that means nothing isn't in it.
    """
    cleaned, reported = {}, []
    for column, raw in row.items():
        value = raw
        given = rules.get(column, {})
        for rule in ("trim", "case", "null_like", "range", "dictionary"):
            if value is None or not given.get(rule):
                continue
            before, value, outcome = value, *_apply(rule, given[rule], value, dictionaries)
            if value != before:
                reported.append(
                    {
                        "column_name": column,
                        "rule": rule,
                        "outcome": outcome,
                        "raw_value": str(raw),
                    }
                )
        cleaned[column] = value
    return cleaned | {"cleaning": reported}


def _apply(
    rule: str, given: Any, value: Any, dictionaries: dict[str, dict[str, str]]
) -> tuple[Any, str]:
    """(value after the rule, what it is called if it differs)."""
    if rule == "trim":
        return value.strip(WHITE_SPACE), "changed"
    if rule == "case":
        return getattr(value, given)(), "changed"
    if rule == "null_like":
        return (None if value in given else value), "changed"
    if rule == "range":
        inside = given.get("min", value) <= value <= given.get("max", value)
        return (value if inside else None), "refused"
    meaning = dictionaries[given["seed"]].get(value)
    if meaning is None:
        return (value, "") if given.get("otherwise") == "keep" else (None, "refused")
    return meaning, "changed"
