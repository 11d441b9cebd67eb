"""SQL of an order from the highest value to the lowest.

Spark compares rows by the values of a struct, one after the other and each of them ascending. A
column that descends is compared by another value, which is the higher the lower its own value is.
"""

from __future__ import annotations

# kinds of types, as an author reads them
REVERSIBLE = ("a whole number", "decimal", "date", "timestamp", "boolean", "string", "binary")
HEX = "0123456789ABCDEF"
EPOCH = "timestamp_ntz '1970-01-01 00:00:00'"


def is_reversible(kind: str) -> bool:
    """Whether a Spark type has a value that stands for each of its values in the other order. Not
    so double and float, of which 0.0 equals -0.0 and NaN is the highest, negated or not."""
    return kind.startswith("decimal(") or kind in _REVERSED


def reversed_value(value: str, kind: str) -> str:
    """SQL of what is the higher, the lower a value is; equal where values are, null for null.

    Args:
        value: SQL expression.
        kind: its Spark type, see is_reversible.
    """
    return ("-{}" if kind.startswith("decimal(") else _REVERSED[kind]).format(value)


# each bit turned has no overflow, as the negative of the lowest number has. Of a text, whose bytes
# are compared: its hexadecimal digits turned, and an end that is higher than all of them, as a text
# is lower than all that begin with it
_DIGITS = f"concat(translate(hex({{}}), '{HEX}', '{HEX[::-1]}'), 'G')"
_REVERSED = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "~{}"),
    "date": "~unix_date({})",
    "timestamp": "~unix_micros({})",
    # by the time of its own, whatever zone the session is in
    "timestamp_ntz": f"-cast(cast({{}} - {EPOCH} as interval second) as decimal(20, 6))",
    "boolean": "(not {})",
    "string": _DIGITS,
    "binary": _DIGITS,
}
