"""The SQL of dbt's suite, which is PostgreSQL's, as Spark's: types, casts, quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator

# an expression may have others in its texts, as the hooks in a config have
JINJA = re.compile(r"\{\{(?:\{\{.*?\}\}|(?!\{\{|\}\}).)*\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
TEXT = re.compile(r"'(?:[^']|'')*+'|--[^\n]*+")
# PostgreSQL's words outside of texts and Jinja -> Spark's
WORDS = (
    (r"(?i)\btimestamp\s+with(?:out)?\s+time\s+zone\b|\btimestamptz\b", "timestamp"),
    (r"(?i)\b(?:character varying|varchar)\b(?:\s*\(\s*\d+\s*\))?", "string"),
    (r"(?i)\b(?:big)?serial primary key\b", "bigint"),
    (r"(?i)([\w`\"]\s+)text(?=\s*(?:[,)\n]|$))", r"\1string"),
    # a column that is added is null anyway; Spark wants a default of the column's own type
    (r"(?i)(\badd column \w+ \w+) default null\b", r"\1"),
    (r'"([^"\n{}]+)"', r"`\1`"),
    (r"\bNone\.(?=\w)", ""),  # the name of a database, which Spark's relations don't have
)
OF_DATABASE = re.compile(r"\{\{\s*target\.database\s*\}\}\.")
# Iceberg has no default values of columns that are added to a table with rows
ADDED = re.compile(r"(?i)\s*(alter table (\S+) add column (\w+) .+?)\s+default\s+(\S.*?)\s*$")
# a value and its type: 'x'::date, null::timestamp, column::text
CAST = re.compile(r"(\x00\d+\x00|\b[\w.]+\b)\s*::\s*(\w+)")


def spark_sql(sql: str) -> str:
    """The statement, with its Jinja as it is.

    >>> spark_sql("select 'text'::text as \\"a\\", null::timestamptz from {{ ref('text') }}")
    "select cast('text' as string) as `a`, cast(null as timestamp) from {{ ref('text') }}"
    """
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\x00{len(kept) - 1}\x00"

    text = TEXT.sub(keep, JINJA.sub(keep, OF_DATABASE.sub("", sql)))
    text = CAST.sub(r"cast(\1 as \2)", text)
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    while "\x00" in text:  # Jinja may stand within a text
        text = re.sub("\x00(\\d+)\x00", lambda found: kept[int(found[1])], text)
    return text


def statements(sql: str) -> Iterator[str]:
    """The statements of a script, which PostgreSQL takes all at once."""
    texts = list(TEXT.finditer(sql))
    start = 0
    for found in re.finditer(";|$", sql):
        if any(text.start() <= found.start() < text.end() for text in texts):
            continue
        statement = sql[start : found.start()]
        start = found.end()
        if not re.sub(r"--[^\n]*", "", statement).strip():
            continue
        added = ADDED.fullmatch(statement)
        if added is None:
            yield statement
        else:
            yield added[1]
            yield f"update {added[2]} set {added[3]} = {added[4]}"
