"""Numbers of a JSON text as they are written.

Where from_json reads a number as text, on its own or within a nested document, it prints it again:
one with a point or an exponent through a double, so that 12345678901234567.89 becomes
1.2345678901234568E16 and 10.10 becomes 10.1. Such rows are few: they are found by the text that was
read, and only they are read again, from a payload in which each such number stands in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from python_udfs.ingestion.tables.types import SourceType

# begins a text that is a number: control characters, which JSON holds as escapes only
_MARK = r"\u0001\u0002\u0001"
_MARKED = r'^\x01\x02\x01|"\\u0001\\u0002\\u0001([^"]*+)"'
_TEXT_OR_SIGNS = r'[^"0-9-]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# all up to the next number that would be reprinted: signs, whole texts, whole numbers
_SKIPPED = rf"\G((?:{_TEXT_OR_SIGNS}|(?!-0(?![0-9]))-?[0-9]++(?![0-9.eE]))*+)"
_NUMBER = r"(-?[0-9][0-9.eE+-]*+)"
# the same for numbers that neither a double nor a decimal of Spark's may hold
_NO_DECIMAL = rf"\G(?:{_TEXT_OR_SIGNS}|-?[0-9]{{1,38}}+(?![0-9.eE]))*+{_NUMBER}"
# the beginning of a number that would be reprinted
_REPRINTED = r"-?\d++[.eE]|-0(?!\d)"
_OVER_17_DIGITS = r"^-?[0.]*[1-9](?:\.?[0-9]){16,}\.?[1-9]"
# MySQL's decimals have at most 30 places. Fewer spare places than these let a digit be rounded away
# that somebody may really have
_SPARE_PLACES = 12
AMBIGUOUS = (
    "a number in a column of text that can't be kept as it is written, since a text of the message "
    "has the control characters 1, 2, 1 in it"
)


def with_marked_numbers(payload: Column) -> Column:
    """A JSON text whose numbers with a point or exponent (and -0) are texts behind a mark."""
    from pyspark.sql import functions as F

    mark = _MARK.replace("\\", "\\\\")
    return F.regexp_replace(payload, _SKIPPED + _NUMBER, f'$1"{mark}$2"')


def without_number_marks(text: Column) -> Column:
    """What from_json read as text of `with_marked_numbers`, its numbers as they were written."""
    from pyspark.sql import functions as F

    return F.regexp_replace(text, _MARKED, "$1")


def is_ambiguous(payload: Column) -> Column:
    """Condition: the mark stands in the payload itself."""
    return payload.contains(_MARK)


def may_be_reprinted(values: Mapping[str, Iterable[Column]], payload: Column) -> Column:
    """Condition: one of the values may be the text of a number, or hold one, that was no text.

    It is asked of every row: comparisons of first characters, and only of what looks like a number
    or a document whether the payload has it in quotes. That stands behind a WHEN: what stands twice
    in a condition is computed for each row, wherever an AND would end. It is true too often, never
    too seldom, for messages that write a column in one way.

    Args:
        values: the column's name in the log -> what from_json read of it, of each image.
    """
    from pyspark.sql import functions as F

    found, documents, has_document = F.lit(False), F.lit(False), F.lit(False)
    for name, images in values.items():
        key = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '":'
        images = list(images)
        for value in images:
            is_bare = ~payload.contains(F.concat(F.lit(f'{key}"'), value, F.lit('"')))
            may_change = value.contains(".") | ((value == "0") & payload.contains("-0"))
            found = found | F.when((value < ":") & (value >= "-"), may_change & is_bare)
            has_number = value.contains(".") | value.contains("Infinity") | payload.contains("-0")
            for sign in "{[":
                in_quotes, bare = payload.contains(f'{key}"{sign}'), payload.contains(key + sign)
                begins = value.startswith(sign)
                has_document = has_document | begins
                documents = documents | (begins & has_number & (~in_quotes | bare))
            # a number that no double holds
            found = found | value.startswith('"Infinity') | value.startswith('"-Infinity')
        if len(images) > 1:
            # one image may have it in quotes, the other may not
            same = images[0] == images[1]
            found = found | ((images[0] < ":") & images[0].contains(".") & same)
    return F.coalesce(found | F.when(has_document, documents), F.lit(False))


def bare_value(names: Iterable[str], payload: Column, around: Collection[str]) -> Column:
    """Condition: one of the names may have a number that would be reprinted, or a document.

    The names are looked for only in a message that has such a value at all, beside its own: a
    search for many names takes longer than all else that is done to a message.

    Args:
        around: names that the message itself has, each once, with a list or an object.
    """
    from pyspark.sql import functions as F

    # a name may also be written with escapes
    listed = [*map(re.escape, names), r'[^"\\]*+(?:\\.[^"\\]*+)++']
    begin, ours = r'(?<!\\)"', [re.escape(name) for name in names if name in around]
    others = "|".join(field for field in listed if field not in ours)
    numbers = rf'{begin}(?:{"|".join(listed)})"\s*:\s*(?:{_REPRINTED})'
    named = payload.rlike(rf'{numbers}|{begin}(?:{others})"\s*:\s*[\[{{]')
    found = F.when(payload.rlike(_value_beside(around)), named)
    for name in ours:
        found = found | (F.regexp_count(payload, F.lit(rf'{begin}{name}"\s*:\s*[\[{{]')) > 1)
    return found


def _value_beside(around: Collection[str]) -> str:
    """A regular expression: a number that would be reprinted, or a document of a name that isn't
    in `around`.

    It begins with a colon, since a text has fewer colons than quotes.
    """
    own = "|".join(rf'(?<!\\)"{re.escape(name)}":.' for name in around)
    return rf':(?<=[\s"]:)\s*+(?:{_REPRINTED}|[\[{{](?<!{own}))'


def narrow_decimals(columns: Mapping[str, SourceType]) -> dict[str, SourceType]:
    """Those that are read with few places beyond the declared places, so that value may be
    rounded."""
    return {
        name: kind
        for name, kind in columns.items()
        if kind.kind == "decimal" and _places(kind.parsed) - _places(kind.spark) < _SPARE_PLACES
    }


def may_be_rounded(columns: Iterable[SourceType], payload: Column) -> Column:
    """Condition: the payload has a number with more places than one of these is read with."""
    from pyspark.sql import functions as F

    places = min((_places(kind.parsed) for kind in columns), default=None)
    if places is None:
        return F.lit(False)
    return payload.rlike(rf"\.\d{{{places + 1}}}|\d[eE]-")


def is_rounded(text: Column, decimal: str) -> Column:
    """Condition: the text is a number with more places than the type has; false for null."""
    from pyspark.sql import functions as F

    places = _places(decimal)
    fraction = F.length(
        F.regexp_extract(text, r"^\s*+[+-]?\d*+\.((?:\d*[1-9])?+)0*+(?:[eE].*+)?\s*+$", 1)
    )
    exponent = F.regexp_extract(text, r"[eE]\+?(-?\d{1,9})\s*$", 1).try_cast("int")
    # two regular expressions: only for the few texts with an exponent, or with so many signs behind
    # the point
    point = F.instr(text, ".")
    may_be = text.contains("e") | text.contains("E")
    may_be = may_be | ((point > 0) & (F.length(text) - point > places))
    is_longer = fraction - F.coalesce(exponent, F.lit(0)) > places
    return F.coalesce(F.when(may_be, is_longer), F.lit(False))


def exact_decimal(text: Column, decimal: str) -> Column:
    """The number of a text in a type like decimal(38,18); null where it would be rounded."""
    from pyspark.sql import functions as F

    return F.when(~is_rounded(text, decimal), text.try_cast(decimal))


def rounded_decimals(kinds: Mapping[str, SourceType], parts: Sequence[str]) -> Column:
    """Text naming the decimals with more places than they are read with; null without such.

    Args:
        kinds: name in the log -> type, of those to look at.
        parts: images in the column `_exact`, each a struct of marked texts; `_exact` is null where
            nothing was marked.
    """
    from pyspark.sql import functions as F

    if not kinds:
        return F.lit(None).cast("string")
    exact, reasons = F.col("_exact"), []
    for part in parts:
        for name, kind in kinds.items():
            text = without_number_marks(exact[part][name])
            ending = F.lit(f" is no {kind.declared}")
            reason = F.concat(F.lit(f"{part}.{name} = "), F.substring(text, 1, 80), ending)
            reasons.append(F.when(is_rounded(text, kind.parsed), reason))
    listed = F.concat_ws("; ", *reasons)
    return F.when(exact.isNotNull() & (listed != ""), listed)


def is_no_double(document: Column) -> Column:
    """Condition: a JSON text has a bare number that a double can't hold to its last digit.

    Who has only doubles and 64-bit integers, as MongoDB has for bare numbers, doesn't write one.
    """
    from pyspark.sql import functions as F

    numbers = F.regexp_extract_all(document, F.lit(_NO_DECIMAL), F.lit(1))
    too_long = F.exists(numbers, lambda number: number.rlike(_OVER_17_DIGITS))
    return F.coalesce(document.rlike("[0-9.]{18}") & too_long, F.lit(False))


def _places(decimal: str) -> int:
    return int(decimal.rstrip(")").split(",")[1])
